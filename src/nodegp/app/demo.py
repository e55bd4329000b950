"""What the library does, on the Cora that comes with it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from nodegp.app.model import ModelOptions, describe
from nodegp.app.results import Result, plain
from nodegp.datasets import Dataset, load_dataset
from nodegp.evaluation import Evaluation

__all__ = ["Demo", "run_demo"]

_NUMBERS = (
    "labels accuracy log_loss calibration_error loo_accuracy loo_log_loss elbo iterations "
    "converged temperature preprocessing recipe filter kernel likelihood hyperparameters learnt "
    "seconds_fit seconds_predict_all"
)


@dataclass(frozen=True, eq=False)
class Demo(Result):
    """The data, the numbers of the model, and the papers whose topic is least clear."""

    papers: int
    citations: int
    topics: int
    numbers: dict[str, Any]
    doubtful: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return plain(self.numbers | {"doubtful": self.doubtful})


def run_demo(options: ModelOptions, doubtful: int = 5) -> Demo:
    """Fit Cora's 140 public labels, and evaluate on its public test nodes."""
    data = load_dataset("cora")
    model = options.classifier()
    started = time.perf_counter()
    model.fit(data.graph, data.labels("train"))
    fitted = time.perf_counter()
    proba = model.predict_proba(data.graph)
    finished = time.perf_counter()
    info, test = describe(model, data.graph), data.splits["test"]
    scores = Evaluation("test", model.classes_, test, data.y[test], proba[test]).scores()
    sources = vars(info) | scores | {f"loo_{k}": v for k, v in info.leave_one_out.items()}
    sources |= {
        "iterations": model.n_iter_,
        "preprocessing": model.preprocessing_,
        "hyperparameters": model.prior_.parameters(),
        "learnt": sorted(model.prior_.free_parameters()),
        "seconds_fit": fitted - started,
        "seconds_predict_all": finished - fitted,
    }
    numbers = {name: sources[name] for name in _NUMBERS.split()}
    graph = data.graph
    rows = _most_doubtful(data, proba, doubtful)
    return Demo(graph.n_nodes, graph.n_edges, len(data.class_names), plain(numbers), rows)


def _most_doubtful(data: Dataset, proba: np.ndarray, count: int) -> list[dict[str, Any]]:
    """The unlabelled nodes whose class is least clear, with their two likeliest topics."""
    entropy = -(proba * np.log(np.maximum(proba, 1e-300))).sum(axis=1)
    entropy[data.splits["train"]] = -np.inf
    ids = data.graph.ids if data.graph.ids is not None else np.arange(data.graph.n_nodes)
    return [
        {
            "node": int(node),
            "paper": str(ids[node]),
            "links": int(data.graph.degrees[node]),
            "entropy": float(entropy[node]),
            "likeliest": [
                [data.class_names[c], float(proba[node, c])] for c in np.argsort(-proba[node])[:2]
            ],
        }
        for node in np.argsort(-entropy)[:count]
    ]
