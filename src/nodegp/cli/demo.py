"""`nodegp demo`: what the library does, on the Cora that comes with it."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from nodegp import metrics
from nodegp.datasets import Dataset, load_dataset
from nodegp.estimators import GraphGPClassifier


def run(
    preset: str | None,
    likelihood: str | None,
    calibrate: bool | None,
    doubtful: int,
    as_json: bool,
) -> None:
    """Fit, evaluate on the public test nodes, print."""
    data = load_dataset("cora")
    settings: dict[str, Any] = {"preset": preset, "likelihood": likelihood}
    if calibrate is not None:
        settings["calibrate"] = "loo" if calibrate else None
    model = GraphGPClassifier(random_state=0, **settings)
    started = time.perf_counter()
    model.fit(data.graph, data.labels("train"))
    fitted = time.perf_counter()
    proba = model.predict_proba(data.graph)
    finished = time.perf_counter()
    summary = summarise(data, model, proba)
    summary |= {"seconds_fit": fitted - started, "seconds_predict_all": finished - fitted}
    summary["doubtful"] = most_doubtful(data, proba, doubtful)
    if as_json:
        print(json.dumps(summary, indent=2))
    else:
        _show(data, summary)


def summarise(data: Dataset, model: GraphGPClassifier, proba: np.ndarray) -> dict[str, Any]:
    """The numbers of a fitted model, on the public test nodes and by leave-one-out."""
    test, train = data.splits["test"], model.labelled_
    y, p = data.y[test], proba[test]
    return {
        "labels": len(train),
        "accuracy": metrics.accuracy(y, p),
        "log_loss": metrics.log_loss(y, p),
        "calibration_error": metrics.expected_calibration_error(y, p),
        "loo_accuracy": metrics.accuracy(data.y[train], model.loo_proba_),
        "loo_log_loss": metrics.log_loss(data.y[train], model.loo_proba_),
        "elbo": model.elbo_,
        "iterations": model.n_iter_,
        "converged": model.converged_,
        "temperature": model.temperature_,
        "preprocessing": model.features_,
        "recipe": next((score.name for score in model.selection_ if score.chosen), None),
        "filter": type(model.filter_).__name__,
        "kernel": " + ".join(type(kernel).__name__ for kernel in model.model_.kernels),
        "likelihood": type(model.likelihood_).__name__,
        "hyperparameters": {k: float(v) for k, v in model.prior_.parameters().items()},
        "learnt": sorted(model.prior_.free_parameters()),
    }


def most_doubtful(data: Dataset, proba: np.ndarray, count: int) -> list[dict[str, Any]]:
    """The unlabelled nodes whose class is least clear, with their two likeliest topics."""
    entropy = -(proba * np.log(np.maximum(proba, 1e-300))).sum(axis=1)
    entropy[data.splits["train"]] = -np.inf
    rows = []
    for node in np.argsort(-entropy)[:count]:
        first, second = np.argsort(-proba[node])[:2]
        rows.append(
            {
                "node": int(node),
                "paper": str(data.graph.ids[node]) if data.graph.ids is not None else str(node),
                "links": int(data.graph.degrees[node]),
                "entropy": float(entropy[node]),
                "likeliest": [
                    [data.class_names[c], float(proba[node, c])] for c in (first, second)
                ],
            }
        )
    return rows


def _show(data: Dataset, summary: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    graph = data.graph
    console.print(
        f"[bold]Cora[/]: {graph.n_nodes:,} papers, {graph.n_edges:,} citations, "
        f"{len(data.class_names)} topics, {summary['labels']} labels\n"
    )
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    learnt = ", ".join(
        f"{name} {value:.3g}" + ("" if name in summary["learnt"] else " (fixed)")
        for name, value in summary["hyperparameters"].items()
    )
    temperature = summary["temperature"]
    rows = {
        "test accuracy": f"[bold green]{summary['accuracy']:.1%}[/] on 1,000 papers",
        "log loss": f"{summary['log_loss']:.3f}",
        "calibration error": f"{summary['calibration_error']:.3f}",
        "leave-one-out": f"{summary['loo_accuracy']:.1%} accuracy, "
        f"log loss {summary['loo_log_loss']:.3f} (from the labels alone)",
        "seconds": f"{summary['seconds_fit']:.2f} to fit, "
        f"{summary['seconds_predict_all']:.2f} to predict all papers",
        "model": f"{summary['recipe'] or summary['filter'] + ' filter'}, "
        f"{summary['likelihood']}, features {summary['preprocessing']}",
        "hyper-parameters": learnt,
        "temperature": f"{temperature:.2f}" + (" (off)" if temperature == 1.0 else ""),
        "evidence bound": f"{summary['elbo']:.2f} after {summary['iterations']} iterations"
        + ("" if summary["converged"] else " [red](not converged)[/]"),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    if summary["doubtful"]:
        console.print("\n[bold]The papers worth asking an expert about[/] (highest entropy)")
        papers = Table(box=None, pad_edge=False)
        for name in ("paper", "links", "entropy", "likeliest topics"):
            papers.add_column(name, justify="right" if name in ("links", "entropy") else "left")
        for row in summary["doubtful"]:
            topics = ", ".join(f"{name} {p:.0%}" for name, p in row["likeliest"])
            papers.add_row(row["paper"], str(row["links"]), f"{row['entropy']:.2f}", topics)
        console.print(papers)
