"""Draw the figures of the README and the documentation: docs/figures/*.svg.

    python scripts/build_figures.py                        # draw, from the numbers kept
    python scripts/build_figures.py --measure thirty       # compute its numbers anew, then draw
    python scripts/build_figures.py --measure curves --runs curves/runs.jsonl

Numbers are kept in scripts/figures/numbers, each with the command that made them; drawing needs no
package, and gives the same bytes everywhere (a test compares them). The runs behind "curves" come
from the command that its file names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from figures import curves, papers, reliability, thirty

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "figures"
NUMBERS = Path(__file__).resolve().parent / "figures" / "numbers"

# file: the numbers that it shows, and who draws them
FIGURES: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "twenty-labels.svg": ("papers", papers.before_and_after),
    "questions.svg": ("papers", papers.questions),
    "curves.svg": ("curves", curves.drawing),
    "reliability.svg": ("reliability", reliability.drawing),
    "filter.svg": ("thirty", thirty.filter_drawing),
    "prior.svg": ("thirty", thirty.prior_drawing),
    "posterior.svg": ("thirty", thirty.posterior_drawing),
}
MEASURES: dict[str, Callable[[], dict[str, Any]]] = {
    "papers": papers.measure,
    "reliability": reliability.measure,
    "thirty": thirty.measure,
}


def drawings() -> dict[str, str]:
    """Every figure by the name of its file."""
    return {
        name: draw(json.loads((NUMBERS / f"{numbers}.json").read_text(encoding="utf-8")))
        for name, (numbers, draw) in FIGURES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the figures of the documentation.")
    parser.add_argument("--measure", choices=[*MEASURES, "curves"], action="append", default=[])
    parser.add_argument("--runs", type=Path, help="runs.jsonl of the command behind 'curves'")
    options = parser.parse_args()
    for name in options.measure:
        if name == "curves" and options.runs is None:
            parser.error(f"--measure curves needs --runs, made by: {curves.COMMAND}")
        found = curves.measure(options.runs) if name == "curves" else MEASURES[name]()
        (NUMBERS / f"{name}.json").write_text(json.dumps(found) + "\n", encoding="utf-8")
    for name, drawing in drawings().items():
        (FOLDER / name).write_text(drawing, encoding="utf-8")
    print(f"{len(FIGURES)} figures written to {FOLDER}")


if __name__ == "__main__":
    main()
