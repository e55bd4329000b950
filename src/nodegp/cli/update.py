"""`nodegp update`: answers in, a better model out."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from nodegp.cli import options, show

_SMALL = 5_000  # nodes of a graph for which looking ahead takes seconds


def command(
    model: options.ModelFile,
    labels: Annotated[
        Path, typer.Option(help="Table of ids and labels; rows without a label are skipped.")
    ],
    id: options.Id = None,
    label: Annotated[
        str | None, typer.Option(help="Column of the labels; the model's own by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to; over MODEL by default.")
    ] = None,
    new_classes: Annotated[
        bool, typer.Option("--new-classes", help="Take labels that no node had so far.")
    ] = False,
    ignore_unknown: options.IgnoreUnknown = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Add labels to a model, starting from where its fit ended.

    A node that had a label gets the new one. Says how much the predictions changed, which is
    also how to know when to stop asking.
    """
    import numpy as np

    from nodegp.active import advice
    from nodegp.cli.fit import describe, model_facts
    from nodegp.cli.modelfile import ModelFile
    from nodegp.files import check_place

    if out is not None:
        check_place(out)
    file = ModelFile.read(model)
    positions, values = read_answers(file, labels, id, label, ignore_unknown)
    if not len(positions):
        raise ValueError(f"{labels} has no labels yet; fill in the label column first")
    before = file.y()[positions]
    if not new_classes:
        _require_known(values, file.model.classes_, labels)
    is_new = np.array([label is None for label in before])
    replaced = int((before[~is_new] != values[~is_new]).sum())
    if not is_new.any() and not replaced:
        raise ValueError(f"{labels} says nothing new: the model has these labels already")
    earlier, classes = file.model.predict_proba(), file.model.classes_
    with show.waiting("fitting", quiet):
        file.model.update(positions, values)
    changed = None
    rest = np.setdiff1d(np.arange(file.graph.n_nodes), file.model.labelled_)
    if len(rest):
        then = np.zeros((len(rest), len(file.model.classes_)))
        then[:, np.searchsorted(file.model.classes_, classes)] = earlier[rest]
        changed = advice(
            [then, file.model.predict_proba(nodes=rest)],
            gain=_expected_gain(file, quiet),
            labels_per_round=len(positions),
        )
    file.write(out or model)
    if as_json:
        show.as_json(
            {
                "new_labels": int(is_new.sum()),
                "replaced_labels": replaced,
                "changed": None if changed is None else changed.changed,
                "moved": None if changed is None else changed.moved,
                "stop": None if changed is None else changed.stop,
                "expected_gain": None if changed is None else changed.gain,
                "model": describe(file),
                "file": str(out or model),
            }
        )
    elif not quiet:
        counts = f"{int(is_new.sum()):,} new, {replaced:,} replaced"
        show.facts([("labels read", counts), *model_facts(file)], "The model")
        if changed is not None:
            print(changed.text)
        print(f"written to {out or model}")


def _require_known(values: Any, classes: Any, path: Path) -> None:
    """A mistyped label would be a class for ever."""
    known = [str(name) for name in classes.tolist()]
    for value in dict.fromkeys(str(value) for value in values.tolist()):
        if value not in known:
            near = get_close_matches(value, known, 1, 0.6)
            guess = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known[:8])}."
            raise ValueError(
                f"{path}: no node had the label {value!r} so far; {guess} Pass --new-classes if it "
                "is a new one."
            )


def _expected_gain(file: Any, quiet: bool) -> float | None:
    """How many fewer nodes would be wrong for one more label; None where that takes too long."""
    from nodegp.active import suggest

    if file.graph.n_nodes > _SMALL:
        return None
    with show.waiting("looking ahead", quiet):
        choice = suggest(file.graph, 1, "eer", y=file.y(), unlabelled=None)
    return float(choice.scores[0]) if len(choice.scores) and not choice.note else None


def read_answers(
    file: Any, labels: Path, id: str | None, label: str | None, ignore_unknown: bool
) -> tuple[Any, Any]:
    """Node numbers and labels of a table, in the columns that the model's tables had."""
    from nodegp.io import read_labels
    from nodegp.io.tables import TableFile

    columns = TableFile.open(labels).names
    return read_labels(
        labels,
        file.ids,
        id or (file.id_column if file.id_column in columns else None),
        label or (file.label_column if file.label_column in columns else None),
        classes=file.model.classes_,
        ignore_unknown=ignore_unknown,
    )
