"""What the library does, on the Cora that comes with it: a project like any other."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.special import entr

from nodegp.app.model import ModelOptions
from nodegp.app.project import Project
from nodegp.datasets import load_dataset

__all__ = ["run_demo"]


def run_demo(options: ModelOptions, doubtful: int = 5) -> dict[str, Any]:
    """Fit Cora's 140 public labels, and evaluate on its public test nodes.

    Gives the model in numbers (:meth:`Project.info`), its scores, and as ``doubtful`` the papers
    whose topic is least clear, each with its two likeliest topics.
    """
    data = load_dataset("cora")
    project = Project(data.graph, options=options)
    training, test = (
        zip(project.ids[nodes], data.y[nodes].tolist(), strict=True)
        for nodes in (data.splits["train"], data.splits["test"])
    )
    project.answer(training)
    info = project.fit()
    seconds_fit = info.pop("seconds")
    model = project.model
    assert model is not None
    started = time.perf_counter()
    proba = model.predict_proba()
    seconds = time.perf_counter() - started
    scores = project.evaluate(labels=test).own.scores()
    entropy = entr(proba).sum(axis=1)
    entropy[model.labelled_] = -np.inf
    return info | {
        **{name: scores[name] for name in ("accuracy", "log_loss", "calibration_error")},
        **{f"loo_{name}": info["leave_one_out"][name] for name in ("accuracy", "log_loss")},
        "iterations": model.n_iter_,
        "preprocessing": model.preprocessing_,
        "seconds_fit": seconds_fit,
        "seconds_predict_all": seconds,
        "doubtful": [
            {
                "node": node,
                "paper": str(project.ids[node]),
                "links": int(data.graph.degrees[node]),
                "entropy": entropy[node],
                "likeliest": [
                    [data.class_names[c], proba[node, c]] for c in np.argsort(-proba[node])[:2]
                ],
            }
            for node in np.argsort(-entropy)[:doubtful].tolist()
        ],
    }
