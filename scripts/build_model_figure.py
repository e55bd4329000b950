"""Draw docs/figures/model.svg: a small graph, and beside it the model that belongs to it.

    python scripts/build_model_figure.py

What the paper's Figure 1 is about, drawn anew. The same script gives the same bytes; a test
compares them.
"""

from __future__ import annotations

from pathlib import Path

FIGURE = Path(__file__).resolve().parents[1] / "docs" / "figures" / "model.svg"

EDGES = ((1, 2), (1, 3), (2, 3), (3, 4))
LABELLED = (1, 4)
SHOWN = 4  # the node whose neighbourhood is in colour
PLACES = {1: (60, 140), 2: (60, 290), 3: (180, 215), 4: (290, 215)}  # of nodes in the graph
COLUMNS = {1: 430, 2: 540, 3: 650, 4: 760}  # of nodes in the model
ROWS = {"x": 70, "f": 165, "h": 285, "y": 375}
WIDTH, HEIGHT, RADIUS = 980, 430, 22

INK, PALE, PALE_TEXT, ACCENT, SEEN = "#263238", "#90a4ae", "#546e7a", "#c2410c", "#cfd8dc"


def drawing() -> str:
    """The figure as SVG."""
    shapes = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>',
        _text(175, 30, "The graph", 17, weight="bold"),
        _text(595, 30, "The model", 17, weight="bold"),
        *_graph(),
        *_model(),
    ]
    alternative = (
        "Left: four nodes; 1, 2 and 3 are all linked to each other, 3 is linked to 4. Right: each "
        "node n has features x_n, from which f(x_n) comes by one Gaussian process; h_n is the mean "
        "of f over n and its neighbours; the label y_n depends on h_n alone."
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="Helvetica, Arial, sans-serif">\n'
        f"<title>{alternative}</title>\n{_arrow_heads()}\n" + "\n".join(shapes) + "\n</svg>\n"
    )


def _graph() -> list[str]:
    shapes = []
    for a, b in EDGES:
        colour, width = (ACCENT, 3) if SHOWN in (a, b) else (PALE, 2)
        (x1, y1), (x2, y2) = PLACES[a], PLACES[b]
        shapes.append(_line(x1, y1, x2, y2, colour, width))
    for node, (x, y) in PLACES.items():
        near = node == SHOWN or node in _neighbours(SHOWN)
        shapes.append(_circle(x, y, SEEN if node in LABELLED else "#ffffff", near))
        shapes.append(_text(x, y + 6, str(node), 17))
    shapes.append(_text(175, 375, "shaded: known", 14, PALE_TEXT))
    return shapes


def _model() -> list[str]:
    left, right = COLUMNS[1] - 45, COLUMNS[4] + 45
    top = ROWS["f"] - 36
    # The thick outline of the paper: everything in it depends on everything else in it.
    shapes = [
        f'<rect x="{left}" y="{top}" width="{right - left}" height="72" rx="36" fill="none" '
        f'stroke="{INK}" stroke-width="4"/>'
    ]
    for node, x in COLUMNS.items():
        shapes.append(_arrow(x, ROWS["x"], x, ROWS["f"], PALE))
        shapes.append(_arrow(x, ROWS["h"], x, ROWS["y"], ACCENT if node == SHOWN else PALE))
    # Coloured arrows last, so that none is drawn over them.
    for node in sorted(COLUMNS, key=lambda n: n == SHOWN):
        for other in (node, *_neighbours(node)):
            colour = ACCENT if node == SHOWN else PALE
            shapes.append(_arrow(COLUMNS[other], ROWS["f"], COLUMNS[node], ROWS["h"], colour))
    for node, x in COLUMNS.items():
        near = node == SHOWN or node in _neighbours(SHOWN)
        shapes += [_circle(x, ROWS["x"], SEEN), _named(x, ROWS["x"], "x", node)]
        shapes += [_circle(x, ROWS["f"], "#ffffff", near), _named(x, ROWS["f"], "f", node)]
        shapes += [_circle(x, ROWS["h"], "#ffffff", node == SHOWN), _named(x, ROWS["h"], "h", node)]
        seen = SEEN if node in LABELLED else "#ffffff"
        shapes += [_circle(x, ROWS["y"], seen, node == SHOWN), _named(x, ROWS["y"], "y", node)]
    said = {
        "x": ("features",),
        "f": ("one Gaussian process:", "all depend on all"),
        "h": ("mean of f over the node", "and its neighbours"),
        "y": ("label",),
    }
    for row, lines in said.items():
        for n, line in enumerate(lines):
            y = ROWS[row] + 5 + 18 * n - 9 * (len(lines) - 1)
            shapes.append(_text(right + 12, y, line, 14, PALE_TEXT, anchor="start"))
    return shapes


def _neighbours(node: int) -> list[int]:
    return [b if a == node else a for a, b in EDGES if node in (a, b)]


# --- shapes ---------------------------------------------------------------------------------------


def _arrow_heads() -> str:
    heads = (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 1 10 5 0 9z" fill="{colour}"/></marker>'
        for name, colour in (("pale", PALE), ("accent", ACCENT))
    )
    return f"<defs>{''.join(heads)}</defs>"


def _arrow(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    """From the rim of one circle to the rim of another."""
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length * (RADIUS + 1.5), (y2 - y1) / length * (RADIUS + 1.5)
    head, width = ("accent", 2.5) if colour == ACCENT else ("pale", 1.5)
    line = _line(x1 + dx, y1 + dy, x2 - dx, y2 - dy, colour, width)
    return line.replace("/>", f' marker-end="url(#{head})"/>')


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _circle(x: float, y: float, fill: str, coloured: bool = False) -> str:
    stroke, width = (ACCENT, 2.5) if coloured else (INK, 1.5)
    return (
        f'<circle cx="{x}" cy="{y}" r="{RADIUS}" fill="{fill}" stroke="{stroke}" '
        f'stroke-width="{width}"/>'
    )


def _named(x: float, y: float, letter: str, node: int) -> str:
    """A letter with the node's number below its line."""
    return (
        f'<text x="{x}" y="{y + 4}" font-size="18" fill="{INK}" text-anchor="middle">'
        f'<tspan font-style="italic">{letter}</tspan>'
        f'<tspan font-size="12" dy="5">{node}</tspan></text>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    colour: str = INK,
    weight: str = "normal",
    anchor: str = "middle",
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{text}</text>'
    )


if __name__ == "__main__":
    FIGURE.parent.mkdir(exist_ok=True)
    FIGURE.write_text(drawing(), encoding="utf-8")
    print(f"written to {FIGURE}")
