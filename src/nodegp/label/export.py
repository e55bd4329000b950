"""What an expert said, as tables: for `nodegp update`, for other programs, for the record."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from nodegp.app.frontend import OptionError
from nodegp.files import check_place, write_atomically

if TYPE_CHECKING:
    from nodegp.label.session import Session

__all__ = ["FORMATS", "answers_table", "exported", "write_answers"]

FORMATS = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
_KINDS = {"answer": "answered", "unknown": "cannot tell", "later": "put off"}


def answers_table(session: Session) -> pa.Table:
    """A row for each node that something was said of, in the order of the questions.

    The first two columns have the user's own names, and no label where there is none: so the table
    can be given to `nodegp update`.
    """
    state, (id_name, label_name) = session.state, session.subject.columns
    nodes = list(state.history)
    nodes += [n for n in sorted(state.flags | state.notes.keys()) if n not in state.marks]
    rows = []
    for node in nodes:
        mark = state.marks.get(node)
        data: Any = {} if mark is None else dict(mark.event.data)
        if mark is not None and mark.kind == "later":
            data.pop("predicted", None)  # it is asked about again: till then that stays unsaid
        row = {
            "confidence": None if mark is None or mark.label is None else mark.confidence,
            "status": "" if mark is None else _KINDS[mark.kind],
            "time": None if mark is None else mark.event.time,
            "annotator": None if mark is None else mark.event.annotator,
            "note": state.notes.get(node, ""),
            "flagged": node in state.flags,
            "suggestion_visible": data.get("suggestion"),
            "probability_before": data.get("probability"),
            "predicted_before": data.get("predicted"),
            "asked_because": data.get("why"),
            "strategy": data.get("strategy") or None,
        }
        named: dict[str, Any] = {id_name: str(session.subject.ids[node])}
        named[label_name] = None if mark is None else mark.label
        rows.append(named | {n if n not in named else f"{n} (answer)": v for n, v in row.items()})
    text, number, truth = pa.string(), pa.float64(), pa.bool_()
    kinds = [text, text, number, text, text, text, text, truth, truth, number, text, text, text]
    names = list(rows[0]) if rows else [id_name, label_name, *_columns(id_name, label_name)]
    return pa.Table.from_pylist(rows, pa.schema(list(zip(names, kinds, strict=True))))


def _columns(*taken: str) -> list[str]:
    names = (
        *("confidence", "status", "time", "annotator", "note", "flagged", "suggestion_visible"),
        *("probability_before", "predicted_before", "asked_because", "strategy"),
    )
    return [name if name not in taken else f"{name} (answer)" for name in names]


def exported(session: Session, format: str) -> bytes:
    """The table in one of the ``FORMATS``."""
    if format not in FORMATS:
        raise OptionError(f"answers are written as {', '.join(FORMATS)}, not {format!r}")
    table, out = answers_table(session), BytesIO()
    if format == "csv":
        pyarrow.csv.write_csv(table, out)
    elif format == "parquet":
        pyarrow.parquet.write_table(table, out)
    else:
        for row in table.to_pylist():
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    return out.getvalue()


def write_answers(session: Session, path: Path) -> int:
    """Write the table to a file whose name says how, and count its rows."""
    format = path.suffix.removeprefix(".").lower()
    if format not in FORMATS:
        raise OptionError(f"{path}: name a file that ends in {', '.join('.' + f for f in FORMATS)}")
    check_place(path)
    write_atomically(path, exported(session, format))
    return len(answers_table(session))
