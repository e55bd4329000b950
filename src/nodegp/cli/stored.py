"""The commands that work on tables and on model files, for a stored graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from nodegp.cli import show as terminal

__all__ = ["Work", "evaluate", "explain", "fit", "predict", "refuse_without_store", "update"]


class Work(NamedTuple):
    """Where the graph is, who works, and what is said of it."""

    store: Path
    memory: str | None
    cluster: str | None
    dry_run: bool
    as_json: bool
    quiet: bool


def refuse_without_store(memory: str | None, cluster: str | None, dry_run: bool) -> None:
    from nodegp.app.frontend import refuse_without

    given = {"memory": memory, "cluster": cluster, "dry_run": dry_run}
    refuse_without("store", "it is for a graph that is larger than memory", given)


def _refuse(options: dict[str, Any], why: str) -> None:
    from nodegp.app.frontend import OptionError

    for option, value in options.items():
        if value is not None and value is not False:
            raise OptionError(f"`{option}` and `store`: {why}", option, "store")


def _tell(plan: Any, work: Work, progress: Any) -> bool:
    """Print the plan, and whether that is all that was asked for."""
    if work.as_json:
        if work.dry_run:
            terminal.as_json({"plan": plan.to_dict()})
    elif work.dry_run or not work.quiet:
        terminal.facts(plan.rows(), "What it needs")
    for remark in plan.remarks:
        progress.note(remark)
    return work.dry_run


def fit(
    work: Work, out: Path, options: Any, tables: dict[str, Any], classes_anyway: bool, verbose: bool
) -> None:
    from nodegp.app.stored import StoredProject, working
    from nodegp.cli.models import model_facts

    labels = tables.pop("labels")
    columns = {name: tables.pop(name) for name in ("id", "label", "sep", "encoding")}
    columns["ignore_unknown"] = tables.pop("ignore_unknown")
    _refuse(tables, "a stored graph has its nodes, edges and features")
    progress = terminal.Terminal(work.quiet)
    with working(work.memory, work.cluster):
        project = StoredProject.at(work.store, options, progress)
        if _tell(project.plan_fit(labels, **columns), work, progress):
            return
        info = project.fit(labels, classes_anyway, **columns)
        project.save(out)
    if work.as_json:
        terminal.as_json({"model": info | {"file": str(out)}})
    elif not work.quiet:
        facts = [*model_facts(info, verbose), ("seconds", f"{info['seconds']:.2f}")]
        terminal.facts(facts, "The model")
        print(f"written to {out}")


def predict(
    work: Work,
    model: Path,
    out: Path | None,
    coverage: float | None,
    abstain_below: float | None,
    force: bool,
    tables: dict[str, Any],
) -> None:
    from nodegp.app.stored import StoredProject, working
    from nodegp.io.tables import amount

    _refuse(tables, "predictions are for all nodes of the stored graph")
    if out is None and not work.dry_run:
        raise ValueError("say where predictions go: --out FOLDER, for one file of each part")
    progress = terminal.Terminal(work.quiet)
    with working(work.memory, work.cluster):
        project = StoredProject.open(model, work.store, progress)
        if _tell(project.plan_predict(), work, progress) or out is None:
            return
        counts = project.predict(out, coverage, abstain_below, force)
    if work.as_json:
        terminal.as_json(counts | {"folder": str(out)})
    elif not work.quiet:
        files = amount(counts["files"], "file")
        print(f"{amount(counts['predictions'], 'prediction')} written to {files} in {out}")


def update(
    work: Work, model: Path, labels: Path, out: Path, options: dict[str, Any], verbose: bool
) -> None:
    from nodegp.app.stored import StoredProject, working
    from nodegp.cli.models import model_facts

    with working(work.memory, work.cluster):
        project = StoredProject.open(model, work.store, terminal.Terminal(work.quiet))
        result = project.update(labels, **options)
        project.save(out)
    if work.as_json:
        terminal.as_json(result | {"file": str(out)})
    elif not work.quiet:
        counts = f"{result['new_labels']:,} new, {result['replaced_labels']:,} replaced"
        facts = [("labels read", counts), *model_facts(result["model"], verbose)]
        terminal.facts(facts, "The model")
        print(f"written to {out}")


def explain(
    work: Work, model: Path, node: str, for_class: str | None, count: int, show: str | None
) -> dict[str, Any]:
    from nodegp.app.stored import StoredProject, working

    _refuse({"show": show}, "a stored graph shows ids")
    with working(work.memory):
        return StoredProject.open(model, work.store).explain(node, for_class, count)


def evaluate(work: Work, model: Path, options: dict[str, Any]) -> None:
    from nodegp.app.stored import StoredProject, working

    labels, why = options.pop("labels"), "a model of a stored graph is scored on --labels alone"
    options.pop("seed")
    _refuse({name: options.pop(name) for name in ("folds", "compare", "report")}, why)
    if labels is None:
        raise ValueError("say what to score on: --labels FILE, a table of ids and labels")
    with working(work.memory, work.cluster):
        project = StoredProject.open(model, work.store, terminal.Terminal(work.quiet))
        comparison = project.evaluate(labels, **options)
    if work.as_json:
        terminal.as_json(comparison)
        return
    for table in comparison.tables():
        terminal.grid(table.columns, table.rows, table.title)
