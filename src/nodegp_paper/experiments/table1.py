"""Table 1: test accuracy on the public splits."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from nodegp.datasets import load_dataset
from nodegp.estimators import GraphGPClassifier
from nodegp_paper.experiments.models import PaperRecipe, ggp, reliability, scores
from nodegp_paper.experiments.published import DATASETS
from nodegp_paper.experiments.runner import Context, plain
from nodegp_paper.experiments.spec import Spec, row_name

TASK = "semi-supervised"
RECIPE = PaperRecipe(steps=10_000, learning_rate=5e-4)
QUICK = PaperRecipe(steps=100, learning_rate=5e-3, check_every=50)


@dataclass(frozen=True)
class Row:
    """A row of the table: a model, or one engine of it."""

    model: str
    restarts: int = 10
    engine: str = ""  # of a GGP
    baseline: str = ""  # name in nodegp_paper.baselines.REGISTRY
    printed: str = ""  # under which name the paper has it; nothing if it does not
    datasets: tuple[str, ...] = DATASETS
    quick: bool = True  # among the runs of the quick version

    @property
    def name(self) -> str:
        return row_name(self.model, self.engine)


# In the paper's order, then what it does not have. The default engine hardly varies; the paper's
# GGP-X takes most of an hour and skip-gram on walks a minute or three; methods with one restart
# have nothing random in them.
ROWS = (
    Row("GGP", 10, engine="paper", printed="GGP"),
    Row("GGP", 3, engine="default", printed="GGP"),
    Row("GGP-X", 2, engine="paper", printed="GGP-X", quick=False),
    Row("GGP-X", 3, engine="default", printed="GGP-X"),
    Row("GCN", baseline="gcn", printed="GCN"),
    Row("DCNN", baseline="dcnn", printed="DCNN"),
    Row("MoNet", baseline="monet", printed="MoNet"),
    Row("DeepWalk", 5, baseline="deepwalk", printed="DeepWalk", quick=False),
    Row("Planetoid-T", baseline="planetoid-t", printed="Planetoid", quick=False),
    Row("Planetoid-I", baseline="planetoid-i", printed="Planetoid", quick=False),
    Row("ICA", baseline="ica", printed="ICA"),
    Row("LP", 1, baseline="lp", printed="LP"),
    Row("SemiEmb", baseline="semiemb", printed="SemiEmb", quick=False),
    Row("ManiReg", 1, baseline="manireg", printed="ManiReg"),
    Row("node2vec", 5, baseline="node2vec", quick=False),
    Row("ChebNet", baseline="chebnet"),
    Row("Logistic", 1, baseline="logistic"),
    # Dense over all nodes by its definition: Pubmed is too large.
    Row("RGP", 1, baseline="rgp", datasets=("cora", "citeseer"), quick=False),
    Row("XGP", 1, baseline="xgp"),
)
MODELS = tuple(dict.fromkeys(row.model for row in ROWS))


def specs(
    datasets: tuple[str, ...], models: tuple[str, ...], engines: tuple[str, ...],
    seeds: int | None, quick: bool,
) -> list[Spec]:  # fmt: skip
    """The runs of Table 1."""
    chosen = []
    for row in ROWS:
        wanted = row.model in models and (not row.engine or row.engine in engines)
        if not wanted or (quick and not row.quick):
            continue
        count = seeds or (min(row.restarts, 2) if quick else row.restarts)
        settings: dict[str, Any] = {}
        if row.engine == "paper":
            settings["recipe"] = asdict(QUICK if quick else RECIPE)
        chosen += [
            Spec(TASK, dataset, row.model, row.engine, seed, settings)
            for dataset in datasets
            if dataset in row.datasets
            for seed in range(1 if row.restarts == 1 else count)
        ]
    return chosen


def validation(model: str) -> str:
    """What a model does with the 500 validation labels, in a word or two."""
    if model == "GGP-X":
        return "trained on"
    kind = _baseline(model)
    return "used" if kind is not None and kind.uses_validation else "not used"


def _baseline(model: str) -> Any:
    from nodegp_paper.baselines import REGISTRY

    return next(
        (REGISTRY[row.baseline] for row in ROWS if row.model == model and row.baseline), None
    )


def run(spec: Spec, context: Context) -> dict[str, Any]:
    """Fit to the public training labels, score on the public test nodes."""
    data = load_dataset(spec.dataset, context.data_dir)
    splits = ("train", "val") if spec.model == "GGP-X" else ("train",)
    y, test = data.labels(*splits), data.splits["test"]
    if spec.model in ("GGP", "GGP-X"):
        n_labels = int((y >= 0).sum())
        model = ggp(spec.settings, spec.dataset, n_labels, spec.seed, context.checkpoint)
        model.fit(data.graph, y)
    else:
        kind = _baseline(spec.model)
        settings = {"y_val": data.labels("val")} if kind.uses_validation else {}
        model = kind(random_state=spec.seed).fit(data.graph, y, **settings)
    proba = model.predict_proba(data.graph, test)
    found = scores(data.y[test], proba)
    found["reliability"] = reliability(data.y[test], proba)
    if isinstance(model, GraphGPClassifier):
        found |= {
            "elbo": model.elbo_,
            "iterations": model.n_iter_,
            "converged": model.converged_,
            "offset": float(model.kernel_.parameters()["offset"]),
        }
    return plain(found)
