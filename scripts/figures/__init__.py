"""The figures of the README and the documentation, as SVG: see scripts/build_figures.py."""
