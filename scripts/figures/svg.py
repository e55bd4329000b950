"""Shapes, and what all figures share: colours, a card to draw on, axes.

Plain text in, plain text out, with no drawing library: the same numbers give the same bytes
everywhere, so that a test can compare them. A figure has a white card of its own, because the site
and other readers show it on light and on dark pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

INK, PALE, SOFT, CARD = "#263238", "#90a4ae", "#546e7a", "#ffffff"
GRID, NOTHING = "#e4e9ec", "#cfd8dc"
# Told apart by people who see colours differently (Okabe and Ito 2008).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")


def figure(width: int, height: int, alternative: str, shapes: Iterable[str]) -> str:
    """A whole file. ``alternative`` says what can be seen, for those who cannot see it."""
    card = f'<rect width="{width}" height="{height}" rx="8" fill="{CARD}"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="Helvetica, Arial, sans-serif">\n<title>{escape(alternative)}</title>\n'
        + "\n".join([card, *shapes])
        + "\n</svg>\n"
    )


def text(
    x: float,
    y: float,
    words: str,
    size: int = 15,
    colour: str = INK,
    anchor: str = "middle",
    weight: str = "normal",
) -> str:
    style = f' font-weight="{weight}"' if weight != "normal" else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}"{style}>{escape(words)}</text>'
    )


def line(
    ends: Sequence[float], colour: str = PALE, width: float = 1.0, dashes: str | None = None
) -> str:
    x1, y1, x2, y2 = ends
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"{dashed}/>'
    )


def path(points: Iterable[tuple[float, float]], colour: str, width: float = 2.5) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def circle(
    x: float,
    y: float,
    radius: float,
    fill: str,
    stroke: str = "none",
    width: float = 1.5,
) -> str:
    outline = "" if stroke == "none" else f' stroke="{stroke}" stroke-width="{width}"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{fill}"{outline}/>'


def bar(x: float, y: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'
    )


def mixed(low: str, high: str, share: float) -> str:
    """The colour that is ``share`` of the way from one to another."""
    pairs = zip(_channels(low), _channels(high), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


@dataclass(frozen=True)
class Frame:
    """A rectangle with axes: where its left lower corner is, how large it is, and what range of
    numbers it shows."""

    left: float
    bottom: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return (
            self.left + self.width * (x - x0) / (x1 - x0),
            self.bottom - self.height * (y - y0) / (y1 - y0),
        )

    def axes(
        self,
        x_ticks: dict[float, str],
        y_ticks: dict[float, str],
        x_name: str,
        y_name: str = "",
    ) -> list[str]:
        """Grid lines, numbers beside them, and what they count."""
        shapes = []
        for value, name in y_ticks.items():
            _, y = self.at(self.x_range[0], value)
            shapes.append(line((self.left, y, self.left + self.width, y), GRID))
            shapes.append(text(self.left - 8, y + 5, name, 14, SOFT, "end"))
        for value, name in x_ticks.items():
            x, _ = self.at(value, self.y_range[0])
            shapes.append(text(x, self.bottom + 20, name, 14, SOFT))
        shapes.append(
            line((self.left, self.bottom, self.left + self.width, self.bottom), PALE, 1.5)
        )
        shapes.append(text(self.left + self.width / 2, self.bottom + 42, x_name, 14, SOFT))
        if y_name:
            shapes.append(
                text(self.left - 40, self.bottom - self.height - 16, y_name, 14, SOFT, "start")
            )
        return shapes
