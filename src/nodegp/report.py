"""Tables and figures as one self-contained page, and each as a file of its own."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from nodegp.extras import to_install

__all__ = ["Figure", "Remarks", "Table", "check_available", "is_page", "page", "panels"]

GENERATOR = '<meta name="generator" content="nodegp">'
PANEL_WIDTH = 4.2  # inches


@dataclass(frozen=True)
class Table:
    """Text cells under headings, with what a reader must know to read them."""

    name: str  # also the file's
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()
    n_words: int = 2  # columns that hold words, at the left; the others hold numbers

    def markdown(self) -> str:
        rows = [self.columns, ["---"] * len(self.columns), *self.rows]
        lines = [f"## {self.title}\n", *(f"| {' | '.join(cells)} |" for cells in rows)]
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)]) + "\n"


@dataclass(frozen=True)
class Figure:
    """A drawing, with what it shows."""

    name: str  # also the file's
    title: str
    caption: str
    drawing: Any  # a matplotlib Figure

    @property
    def n_panels(self) -> int:
        return round(self.drawing.get_figwidth() / PANEL_WIDTH)

    def rendered(self, form: str) -> bytes:
        """The drawing as "svg" or "png"."""
        import matplotlib

        buffer = io.BytesIO()
        # Without a date and with fixed ids: the same records make the same file.
        metadata = {"Date": None} if form == "svg" else {}
        with matplotlib.rc_context({"svg.hashsalt": self.name, "svg.fonttype": "path"}):
            self.drawing.savefig(buffer, format=form, dpi=150, metadata=metadata)
        return buffer.getvalue()


@dataclass(frozen=True)
class Remarks:
    """Lines of text under a heading."""

    name: str
    title: str
    groups: Sequence[tuple[str, Sequence[str]]]  # a sentence that leads in, and its points


def check_available() -> None:
    """Raise if a report's packages are missing: before the runs, not hours after."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as error:
        hint = to_install("reports")
        raise ValueError(f"reports need matplotlib and jinja2: {hint} ({error})") from None


def panels(count: int) -> tuple[Any, list[Any]]:
    """A drawing of so many panels side by side, and their axes."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(PANEL_WIDTH * max(count, 1), 3.8), layout="constrained")
    axes = [drawing.add_subplot(1, count, position + 1) for position in range(count)]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25)
    return drawing, axes


def page(title: str, lead: str, parts: Sequence[Table | Figure | Remarks]) -> str:
    """One HTML page with everything in it, in the order given."""
    from jinja2 import Environment
    from markupsafe import Markup

    template = (files("nodegp") / "report.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    drawn = {p.name: Markup(_inline(p)) for p in parts if isinstance(p, Figure)}
    named = [(type(part).__name__, part) for part in parts]
    return environment.from_string(template).render(
        title=title, lead=lead, parts=named, drawn=drawn
    )


def is_page(path: Path) -> bool:
    """Whether a file was made by :func:`page`, by the look of it."""
    with path.open("rb") as file:
        return GENERATOR.encode() in file.read(1024)


def _inline(figure: Figure) -> str:
    """The drawing for use within a page: no XML header, and ids that no other drawing has."""
    svg = figure.rendered("svg").decode()
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{figure.name}-', body)
    body = re.sub(r'(xlink:href="|url\()#', rf"\1#{figure.name}-", body)
    return re.sub(r' width="[\d.]+pt"| height="[\d.]+pt"', "", body, count=2)
