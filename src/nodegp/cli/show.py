"""Printing: tables for people, JSON for programs, progress for those who wait."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any


def as_json(value: Any) -> None:
    """Print plain data, numpy's included; what is not a number becomes null."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # an array or number of numpy's
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def facts(rows: Iterable[tuple[str, str]], title: str | None = None) -> None:
    """Names and values, one to a line."""
    from rich.table import Table

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, _literal(value))
    _print(table, title)


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """A table with a head; numbers stand to the right."""
    from rich.table import Table

    rows = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False)
    for position, name in enumerate(columns):
        numeric = all(isinstance(row[position], Real) for row in rows)
        table.add_column(name, justify="right" if numeric and rows else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_literal(_cell(value)) for value in row))
    _print(table, title)


def _cell(value: Any) -> str:
    if isinstance(value, Integral):
        return f"{value:,}"
    if isinstance(value, Real):
        return f"{value:.3f}" if math.isfinite(value) else "-"
    return str(value)


def _literal(text: str, style: str = "") -> Any:
    """A user's text, in which brackets are brackets."""
    from rich.text import Text

    return Text(text, style)


def _print(table: Any, title: str | None) -> None:
    from rich.console import Console

    console = Console()
    if title:
        console.print(_literal(title, "bold"))
    console.print(table)
    console.print()


def note(text: str, quiet: bool = False) -> None:
    """A remark, on standard error."""
    if not quiet:
        print(f"nodegp: {text}", file=sys.stderr)


@contextmanager
def waiting(what: str, quiet: bool = False) -> Iterator[None]:
    """Show that something is going on, on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def counted(items: Iterable[Any], total: int, what: str, quiet: bool = False) -> Iterator[Any]:
    """Pass items on, with a bar that counts them on a terminal."""
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, what, total=total, console=Console(stderr=True), transient=True)
