"""The runs of all experiments beyond the paper."""

from __future__ import annotations

from nodegp_paper.experiments.beyond import learning, public, splits, timing
from nodegp_paper.experiments.beyond.models import MODELS
from nodegp_paper.experiments.spec import Spec

TARGET = "beyond"
TASKS = (splits.TASK, splits.FEW_TASK, public.TASK, learning.TASK, timing.TASK)
ALONE = (timing.TASK,)  # runs that must not have another beside them

# Seconds of a fit on one core of an ordinary machine: a first guess.
_SECONDS = {
    ("APPNP", "cora"): 5.0,
    ("APPNP", "citeseer"): 8.0,
    ("APPNP", "pubmed"): 60.0,
    ("nodegp-X", "cora"): 5.0,
    ("nodegp-X", "citeseer"): 10.0,
    ("nodegp-X", "pubmed"): 5.0,
    ("GGP-X", "cora"): 5.0,
    ("GGP-X", "citeseer"): 10.0,
    ("GGP-X", "pubmed"): 5.0,
}


def specs(
    datasets: tuple[str, ...], models: tuple[str, ...], seeds: int | None, quick: bool
) -> list[Spec]:
    """Every run of those models that are compared here, each once."""
    models = tuple(model for model in MODELS if model in models)
    makers = (splits.specs, splits.few_specs, public.specs, learning.specs, timing.specs)
    return [spec for make in makers for spec in make(datasets, models, seeds, quick)]


def expected_seconds(spec: Spec) -> float:
    """A first guess at how long a run takes."""
    if spec.task == learning.TASK:
        return 20.0 * spec.settings["labels"] / learning.N_LABELS
    seconds = _SECONDS.get((spec.model, spec.dataset), 0.5)
    if spec.task == timing.TASK:
        return (1 + spec.settings["rounds"]) * (seconds + 0.5)
    return seconds
