"""`nodegp evaluate`: how far the predictions can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodegp.cli import options, show

if TYPE_CHECKING:
    from nodegp.evaluation import Evaluation

_SCORES = ("accuracy", "accuracy_error", "log_loss", "brier", "calibration_error")


def command(
    model: options.ModelFile,
    folds: Annotated[
        int | None,
        typer.Option(min=2, help="Fit again with each of so many parts of the labels hidden."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Table of ids and labels that the model has not seen, to score on."),
    ] = None,
    id: options.Id = None,
    label: Annotated[
        str | None, typer.Option(help="Column of the labels; the model's own by default.")
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            help="Other methods on the same labels, with commas: lp,gcn,logistic and more; "
            "5 folds unless --folds or --labels is given."
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page with figures (.html).")
    ] = None,
    ignore_unknown: options.IgnoreUnknown = False,
    coverage: options.Coverage = None,
    abstain_below: options.AbstainBelow = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Score a model on labels that it had not seen.

    By default leave-one-out: what the model says of each label without that label, which costs
    nothing. With --folds the model is fitted again with labels hidden; with --labels it is scored
    on a table of other labels. Nodes fitted to are left out of that table.

    With --coverage it also says how many prediction sets hold the true class and how large they
    are; with --abstain-below, how many nodes get an answer and how many of these are right.
    """
    from nodegp import evaluation
    from nodegp.cli.modelfile import ModelFile

    options.check_doubt(coverage, abstain_below)
    if folds is not None and labels is not None:
        raise ValueError("give --folds or --labels, not both")
    if report is not None:
        from nodegp.files import check_place
        from nodegp.report import check_available

        check_available()
        check_place(report)
    file = ModelFile.read(model)
    rivals = _rivals(compare, seed)
    if rivals and labels is None and folds is None:
        folds = 5
    if labels is not None:
        y = _unseen(file, labels, id, label, ignore_unknown, quiet)
        found = {"nodegp": evaluation.against(file.model, y, coverage=coverage)}
        for name, rival in rivals.items():
            with show.waiting(f"fitting {name}", quiet):
                rival.fit(file.graph, file.y(), classes=file.model.classes_)
            found[name] = evaluation.against(rival, y)
    elif folds is not None:
        found = {}
        for name, rival in {"nodegp": file.model, **rivals}.items():
            with show.waiting(f"{name}: {folds} fits", quiet):
                found[name] = evaluation.cross_validate(
                    rival, file.graph, file.y(), folds, classes=file.model.classes_,
                    random_state=seed, coverage=coverage,
                )  # fmt: skip
    else:
        found = {"nodegp": evaluation.leave_one_out(file.model, coverage)}
    doubt = _doubt_tables(found, coverage, abstain_below)
    if report is not None:
        _write_report(report, found, doubt, str(model))
    if as_json:
        show.as_json({name: _details(one, abstain_below) for name, one in found.items()})
    else:
        _show(found, doubt)
        if report is not None and not quiet:
            print(f"written to {report}")


def _rivals(names: str | None, seed: int) -> dict[str, Any]:
    if names is None:
        return {}
    from nodegp.plugins import baselines

    registry = baselines()
    chosen = options.names(names) or []
    unknown = [name for name in chosen if name not in registry]
    if unknown:
        raise ValueError(
            f"--compare: there is no {unknown[0]!r}; choose among {', '.join(registry)}"
        )
    return {name: registry[name](random_state=seed, unlabelled=None) for name in chosen}


def _unseen(
    file: Any, labels: Path, id: str | None, label: str | None, ignore: bool, quiet: bool
) -> Any:
    """The labels of a table, at nodes that the model was not fitted to."""
    import numpy as np

    from nodegp.cli.update import read_answers

    positions, values = read_answers(file, labels, id, label, ignore)
    fresh = ~np.isin(positions, file.model.labelled_)
    if not fresh.any():
        raise ValueError(f"{labels} has no label that the model has not seen: nothing to score on")
    if not fresh.all():
        seen = int((~fresh).sum())
        show.note(f"{seen:,} labels of {labels} were fitted to and are left out", quiet)
    y = np.full(file.graph.n_nodes, None, dtype=object)
    y[positions[fresh]] = values[fresh]
    return y


def _details(one: Evaluation, abstain_below: float | None) -> dict[str, Any]:
    curve = one.reliability
    return (one.scores() | _answered(one, abstain_below)) | {
        "classes": one.classes,
        "confusion": one.confusion,
        "reliability": {
            "confidence": curve.confidence,
            "accuracy": curve.accuracy,
            "count": curve.count,
        },
    }


def _answered(one: Evaluation, abstain_below: float | None) -> dict[str, Any]:
    """What is left to score when the model may abstain."""
    if abstain_below is None:
        return {}
    part = one.answered(abstain_below)
    return {
        "answered": 0.0 if part is None else len(part.y) / len(one.y),
        "answered_accuracy": float("nan") if part is None else part.accuracy,
        "answered_accuracy_error": float("nan") if part is None else part.accuracy_error,
    }


def _doubt_tables(
    found: dict[str, Evaluation], coverage: float | None, abstain_below: float | None
) -> list[tuple[str, list[str], list[list[Any]]]]:
    """Title, columns and rows of what was asked about sets and abstaining."""
    tables: list[tuple[str, list[str], list[list[Any]]]] = []
    if coverage is not None:
        tables.append(
            (
                f"Prediction sets for a coverage of {coverage:g}",
                ["method", "hold the true class", "± s.e.", "classes in a set"],
                [
                    [name, one.set_coverage, one.set_coverage_error, one.set_size]
                    for name, one in found.items()
                    if one.sets is not None
                ],
            )
        )
    if abstain_below is not None:
        tables.append(
            (
                f"Answers with a probability of at least {abstain_below:g}",
                ["method", "answered", "right among them", "± s.e."],
                [[name, *_answered(one, abstain_below).values()] for name, one in found.items()],
            )
        )
    return tables


def _score_rows(found: dict[str, Evaluation]) -> list[list[Any]]:
    return [[name, *(one.scores()[score] for score in _SCORES)] for name, one in found.items()]


def _show(found: dict[str, Evaluation], doubt: list[Any]) -> None:
    one = found["nodegp"]
    title = f"{one.how[0].upper()}{one.how[1:]}, {len(one.y):,} labels"
    columns = ["method", "accuracy", "± s.e.", "log loss", "Brier", "calibration error"]
    show.grid(columns, _score_rows(found), title)
    for title, columns, rows in doubt:
        show.grid(columns, rows, title)
    names = [str(name) for name in one.classes]
    rows = [[name, *map(int, row)] for name, row in zip(names, one.confusion, strict=True)]
    show.grid(["true \\ predicted", *names], rows, "Confusion")
    curve = one.reliability
    rows = [
        [f"{low:.2f} to {high:.2f}", float(mean), float(right), int(count)]
        for low, high, mean, right, count in zip(
            curve.edges[:-1], curve.edges[1:], curve.confidence, curve.accuracy, curve.count,
            strict=True,
        )
        if count
    ]  # fmt: skip
    show.grid(["confidence", "mean", "right", "nodes"], rows, "Reliability")


def _write_report(path: Path, found: dict[str, Evaluation], doubt: list[Any], model: str) -> None:
    from nodegp.files import write_atomically
    from nodegp.report import Figure, Table, page, panels

    one = found["nodegp"]
    scores = Table(
        "scores",
        "Scores",
        ("method", "", "accuracy %", "s.e.", "log loss", "Brier score", "calibration error"),
        [
            (name, "", f"{100 * a:.1f}", f"{100 * e:.1f}", f"{ll:.3f}", f"{b:.3f}", f"{c:.3f}")
            for name, a, e, ll, b, c in _score_rows(found)
        ],
        (
            "Log loss in nats, Brier score from 0 to 2, calibration error over 15 bins of equal "
            "width: the smaller the better. s.e.: standard error of the accuracy.",
        ),
    )
    asked = [
        Table(
            f"doubt-{number}",
            title,
            (columns[0], "", *columns[1:]),
            [(name, "", *(f"{value:.3f}" for value in values)) for name, *values in rows],
        )
        for number, (title, columns, rows) in enumerate(doubt)
    ]
    names = [str(name) for name in one.classes]
    confusion = Table(
        "confusion",
        "Confusion",
        ("true class", "", *names),
        [(n, "", *map(str, row)) for n, row in zip(names, one.confusion.tolist(), strict=True)],
        ("Rows: true classes; columns: predicted ones.",),
    )
    drawing, (ax,) = panels(1)
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    for name, other in found.items():
        curve = other.reliability
        full = curve.count > 0
        ax.plot(curve.confidence[full], curve.accuracy[full], marker="o", markersize=3, label=name)
    ax.set(xlabel="confidence", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1))
    if len(found) > 1:
        ax.legend(frameon=False)
    caption = (
        "How often the likeliest class is right, against the probability given to it. Above the "
        "diagonal a model is too modest, below it too sure."
    )
    reliability = Figure("reliability", "Reliability", caption, drawing)
    lead = f"{model}: {one.how}, {len(one.y):,} labels in {len(names)} classes."
    text = page("How good are the predictions?", lead, [scores, *asked, reliability, confusion])
    write_atomically(path, text.encode())
