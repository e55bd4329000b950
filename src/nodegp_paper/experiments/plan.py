"""What a user can ask for: the runs that it needs, its tables and figures, and their page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nodegp.report import Figure, Table
from nodegp_paper.experiments import figures, tables, zoo_tables
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import Record
from nodegp_paper.experiments.task import Selection, Task
from nodegp_paper.experiments.tasks import (
    active,
    data,
    few_labels,
    hubs,
    semi_supervised,
    splits,
    steps,
    timing,
    zoo,
    zoo_loo,
)

__all__ = ["ENGINES", "TARGETS", "TASKS", "Target", "expected_seconds", "model_names", "plan"]

ENGINES = ("paper", "default")


@dataclass(frozen=True)
class Target:
    """A table or a figure, and the runs behind it."""

    name: str  # what a user types for it; several may share one
    page: str  # whose name stands for all targets that are on it
    task: Task
    show: Callable[[list[Record]], Table | Figure | None]


# In the order of their pages.
TARGETS = (
    Target("table1", "all", semi_supervised.TASK, tables.accuracy_table),
    Target("table1", "all", semi_supervised.TASK, figures.reliability_diagrams),
    Target("table2", "all", data.TASK, tables.data_table),
    Target("table3", "all", active.TASK, tables.alc_table),
    Target("figure2", "all", active.TASK, figures.learning_curves),
    Target("claims", "all", steps.TASK, figures.optimiser_steps),
    Target("claims", "all", hubs.TASK, figures.hub_influence),
    Target("claims", "all", few_labels.TASK, tables.few_labels_table),
    Target("claims", "all", few_labels.TASK, figures.few_labels_curves),
    Target("beyond", "beyond", splits.RANDOM, tables.splits_table),
    Target("beyond", "beyond", splits.RANDOM, figures.paired_differences),
    Target("beyond", "beyond", splits.PUBLIC, tables.public_table),
    Target("beyond", "beyond", splits.FEW, tables.few_labels_beyond_table),
    Target("beyond", "beyond", splits.FEW, figures.few_labels_beyond_curves),
    Target("beyond", "beyond", splits.RANDOM, tables.calibration_table),
    Target("beyond", "beyond", splits.RANDOM, figures.reliability_beyond_diagrams),
    Target("beyond", "beyond", splits.RANDOM, tables.sets_table),
    Target("beyond", "beyond", active.BEYOND, tables.active_table),
    Target("beyond", "beyond", active.BEYOND, figures.learning_curves_beyond),
    Target("beyond", "beyond", timing.TASK, tables.seconds_table),
    Target("zoo-splits", "zoo", zoo.DATA, zoo_tables.data_table),
    Target("zoo-splits", "zoo", zoo.SPLITS, zoo_tables.summary_table),
    *(
        Target("zoo-splits", "zoo", zoo.SPLITS, partial(show, per_class=per_class))
        for show in zoo_tables.BY_SIZE
        for per_class in zoo.PER_CLASS
    ),
    Target("zoo-splits", "zoo", zoo.SPLITS, zoo_tables.sets_table),
    Target("zoo-splits", "zoo", zoo.SPLITS, zoo_tables.seconds_table),
    Target("zoo-active", "zoo", active.ZOO, tables.zoo_active_table),
    Target("zoo-loo", "zoo", zoo_loo.TASK, zoo_tables.leave_one_out_table),
)
TASKS = {target.task.name: target.task for target in TARGETS}


def model_names() -> tuple[str, ...]:
    """The names of all models that there are runs of."""
    in_table1 = (row.model for row in semi_supervised.rows())
    return tuple(dict.fromkeys((*in_table1, *splits.MODELS, *zoo.METHODS)))


def plan(
    targets: Sequence[str],
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    engines: Sequence[str] | None = None,
    seeds: int | None = None,
    quick: bool = False,
) -> list[Spec]:
    """The runs behind these targets (the pages "all", "beyond" and "zoo" among them), each once.

    ``quick`` is for trying things out: Cora, few labels and steps, one or two seeds.
    """
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    choices = [*(target.name for target in TARGETS), *(target.page for target in TARGETS)]
    names = _checked(targets, list(dict.fromkeys(choices)), "targets")
    chosen = [target for target in TARGETS if {target.name, target.page} & set(names)]
    known = dict.fromkeys(name for target in chosen for name in target.task.datasets)
    selection = Selection(
        tuple(_checked(datasets or (("cora",) if quick else list(known)), list(known), "datasets")),
        tuple(_checked(models or model_names(), model_names(), "models")),
        tuple(_checked(engines or ENGINES, ENGINES, "engine")),
        seeds,
        quick,
    )
    tasks = {target.task.name: target.task for target in chosen}  # several targets may share one
    specs = [spec for task in tasks.values() for spec in task.specs(_for(task, selection))]
    return list({spec.key: spec for spec in specs}.values())


def expected_seconds(spec: Spec) -> float:
    """A first guess at how long a run takes."""
    return TASKS[spec.task].seconds(spec)


def _for(task: Task, selection: Selection) -> Selection:
    """What of a selection a task can run on."""
    return replace(selection, datasets=tuple(d for d in selection.datasets if d in task.datasets))


def _checked(values: Sequence[str], choices: Sequence[str], what: str) -> list[str]:
    """The values in the spelling we use, or an error that lists them all."""
    spelling = {name.lower(): name for name in choices}
    unknown = [value for value in values if value.lower() not in spelling]
    if unknown:
        raise ValueError(
            f"{what}: there is no {', '.join(map(repr, unknown))}; "
            f"choose among {', '.join(choices)}"
        )
    return [spelling[value.lower()] for value in values]
