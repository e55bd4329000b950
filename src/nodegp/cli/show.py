"""Printing: tables for people, JSON for programs, progress for those who wait."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

__all__ = ["Terminal", "as_json", "facts", "grid"]

_PATIENCE = 5.0  # seconds between two lines of progress


def as_json(value: Any) -> None:
    """Print a result, or plain data with results in it."""
    from nodegp.app.frontend import plain

    print(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def facts(rows: Iterable[tuple[str, str]], title: str = "") -> None:
    """Names and values, one to a line."""
    from rich.table import Column

    names, values = Column(style="dim", no_wrap=True), Column(overflow="fold")
    _print([names, values], rows, title, show_header=False)


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """A table with a head; numbers stand to the right."""
    from rich.table import Column

    rows = list(rows)
    heads = []
    for position, name in enumerate(columns):
        numeric = rows and all(isinstance(row[position], Real) for row in rows)
        heads.append(Column(name, justify="right" if numeric else "left", overflow="fold"))
    _print(heads, [map(_cell, row) for row in rows], title)


def _cell(value: Any) -> str:
    if isinstance(value, Integral):
        return f"{value:,}"
    if isinstance(value, Real):
        return f"{value:.3f}" if math.isfinite(value) else "-"
    return str(value)


def _print(columns: list[Any], rows: Iterable[Iterable[str]], title: str, **style: Any) -> None:
    """A table and an empty line. In a user's text, brackets are brackets."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table, console = Table(*columns, box=None, pad_edge=False, **style), Console()
    for row in rows:
        table.add_row(*map(Text, row))
    if title:
        console.print(Text(title, "bold"))
    console.print(table)
    console.print()


class Terminal:
    """The progress of the application: a spinner or a bar on a terminal, else a line every few
    seconds, remarks on standard error, and nothing at all if it is to be quiet."""

    def __init__(self, quiet: bool = False):
        self._quiet = quiet
        self._step: Callable[[int], None] | None = None

    @contextmanager
    def stage(self, text: str, total: int | None = None) -> Iterator[None]:
        if self._quiet:
            yield
            return
        if not sys.stderr.isatty():
            with self._told(text, total):
                yield
            return
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        if total is None:
            with console.status(text):
                yield
            return
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task(text, total=total)
            self._step = lambda count: bar.advance(task, count)
            yield
        self._step = None

    @contextmanager
    def _told(self, text: str, total: int | None) -> Iterator[None]:
        """Lines for a log, from a thread of their own: a fit does not come by here."""
        started, is_over, done = time.monotonic(), threading.Event(), [0]

        def tell() -> None:
            while not is_over.wait(_PATIENCE):
                steps = "" if total is None else f" {done[0]} of {total},"
                self.note(f"{text}:{steps} {time.monotonic() - started:.0f} s so far")

        thread = threading.Thread(target=tell, daemon=True)
        thread.start()
        self._step = lambda count: done.__setitem__(0, done[0] + count)
        try:
            yield
        finally:
            self._step = None
            is_over.set()
            thread.join()

    def advance(self, count: int = 1) -> None:
        if self._step is not None:
            self._step(count)

    def note(self, text: str) -> None:
        if not self._quiet:
            print(f"nodegp: {text}", file=sys.stderr)
