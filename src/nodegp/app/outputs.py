"""Where a result may be written: never over a user's own file, and never over an input.

A file may be replaced if this program wrote one of the same kind there before, and nobody has put
work into it since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow.compute as pc

from nodegp.app.frontend import OptionError
from nodegp.files import check_place
from nodegp.io.ids import names_of
from nodegp.io.tables import TableFile
from nodegp.io.write import check_output
from nodegp.persistence import is_model_file
from nodegp.report import is_page

__all__ = ["check_model_place", "check_page_place", "check_table_place"]

_PREDICTIONS = {"label", "probability", "entropy"}
_QUESTIONS = {"degree", "score"}

Inputs = Iterable[str | Path | None]


def check_model_place(path: Path, inputs: Inputs, force: bool = False) -> None:
    """Refuse to write a model over anything but a model."""
    check_place(path)
    _check(path, inputs, force, "model", is_model_file)


def check_page_place(path: Path, inputs: Inputs, force: bool = False) -> None:
    """Refuse to write a report over anything but a report."""
    check_place(path)
    _check(path, inputs, force, "report", is_page)


def check_table_place(path: Path, inputs: Inputs, force: bool = False) -> None:
    """Refuse to write a table over anything but predictions, or questions without an answer."""
    check_output(path)
    _check(path, inputs, force, "table", _is_own_table)


def _check(
    path: Path, inputs: Inputs, force: bool, kind: str, is_own: Callable[[Path], bool]
) -> None:
    if not path.is_file():  # nothing is there yet, or a device such as /dev/null
        return
    for source in inputs:
        if source is not None and Path(source).exists() and path.samefile(source):
            raise ValueError(f"{path} is read here too; name another file to write to")
    if force or path.stat().st_size == 0 or is_own(path):
        return
    raise OptionError(
        f"{path} is there already, and is no {kind} that nodegp wrote; name another file, or pass "
        "`force` to replace it",
        "force",
    )


def _is_own_table(path: Path) -> bool:
    try:
        file = TableFile.open(path, "table")
    except ValueError:
        return False
    names = set(file.names)
    if names >= _QUESTIONS and len(file.names) > 2:
        label = file.names[1]
        answers = names_of(file.read([label], text=[label]), label, "labels")
        count = pc.count(answers).as_py()
        if count:
            raise OptionError(
                f"{path} has {count} answers filled in: give them to `nodegp update` first, name "
                "another file, or pass `force` to replace them",
                "force",
            )
        return True
    return names >= _PREDICTIONS and any(name.startswith("p(") for name in names)
