"""Which runs a table, a figure or all of them need."""

from __future__ import annotations

from collections.abc import Sequence

from nodegp_paper.experiments import published, table1, table2, table3
from nodegp_paper.experiments.beyond import models as beyond_models
from nodegp_paper.experiments.beyond import plan as beyond
from nodegp_paper.experiments.claims import few_labels, hubs, steps
from nodegp_paper.experiments.spec import Spec

TARGETS = ("table1", "table2", "table3", "figure2", "claims")  # of the paper: "all"
MODELS = tuple(dict.fromkeys((*table1.MODELS, *beyond_models.MODELS)))
ENGINES = ("paper", "default")


def plan(
    targets: Sequence[str],
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    engines: Sequence[str] | None = None,
    seeds: int | None = None,
    quick: bool = False,
) -> list[Spec]:
    """The runs behind these targets ("all" of the paper and "beyond" among them), each once.

    ``quick`` is for trying things out: Cora, few labels and steps, one or two seeds.
    """
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    wanted = set(_checked(targets, (*TARGETS, "all", beyond.TARGET), "targets"))
    if "all" in wanted:
        wanted |= set(TARGETS)
    every = ("cora",) if quick else published.DATASETS
    chosen = tuple(_checked(datasets or every, published.DATASETS, "datasets"))
    rows = tuple(_checked(models or MODELS, MODELS, "models"))
    kinds = tuple(_checked(engines or ENGINES, ENGINES, "engine"))
    runs: list[Spec] = []
    if "table1" in wanted:
        runs += table1.specs(chosen, rows, kinds, seeds, quick)
    if "table2" in wanted:
        runs += table2.specs(chosen)
    if wanted & {"table3", "figure2"}:
        runs += table3.specs(chosen, rows, kinds, seeds, quick)
    if "claims" in wanted:
        if "paper" in kinds and "GGP" in rows:
            runs += steps.specs(chosen, seeds, quick)
        if "default" in kinds:
            if "GGP" in rows:
                runs += hubs.specs(chosen, seeds, quick)
            runs += few_labels.specs(chosen, rows, seeds, quick)
    if beyond.TARGET in wanted:
        runs += beyond.specs(chosen, rows, seeds, quick)
    return list({run.key: run for run in runs}.values())


def _checked(values: Sequence[str], known: Sequence[str], what: str) -> list[str]:
    """The values in the spelling we use, or an error that lists them all."""
    spelling = {name.lower(): name for name in known}
    unknown = [value for value in values if value.lower() not in spelling]
    if unknown:
        raise ValueError(
            f"{what}: there is no {', '.join(map(repr, unknown))}; choose among {', '.join(known)}"
        )
    return [spelling[value.lower()] for value in values]


# Seconds on one core of an ordinary machine: a first guess, until runs of a kind have been seen.
_SECONDS = {
    (table1.TASK, "GGP", "paper"): 90.0,
    (table1.TASK, "GGP-X", "paper"): 3000.0,
    (table1.TASK, "GGP-X", "default"): 10.0,
    (table3.TASK, "GGP", "paper"): 60.0,
    (table3.TASK, "GGP", "default"): 6.0,
    (table3.TASK, "GCN", ""): 25.0,
    (steps.TASK, "GGP", "paper"): 200.0,
    (hubs.TASK, "GGP", "default"): 30.0,
}


def expected_seconds(spec: Spec) -> float:
    """A first guess at how long a run takes."""
    if spec.task in beyond.TASKS:
        return beyond.expected_seconds(spec)
    model = spec.model.split("-", 1)[1] if spec.task == table3.TASK else spec.model
    seconds = _SECONDS.get((spec.task, model, spec.engine), 1.0)
    if "recipe" in spec.settings and spec.task == table1.TASK:
        seconds *= spec.settings["recipe"]["steps"] / table1.RECIPE.steps
    if "labels" in spec.settings:
        seconds *= spec.settings["labels"] / table3.N_LABELS
    return seconds
