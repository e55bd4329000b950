"""`nodegp fit`: from tables to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nodegp.cli import options, show

_MODEL = "The model"


def command(
    nodes: options.Nodes,
    out: Annotated[Path, typer.Option("--out", "-o", help="The model file to write.")],
    edges: options.Edges = None,
    id: options.Id = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Column of the labels, empty where there is none.", rich_help_panel=options._TABLES
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Table of ids and labels, if they are not among the nodes.",
            rich_help_panel=options._TABLES,
        ),
    ] = None,
    source: options.Source = None,
    target: options.Target = None,
    weight: options.Weight = None,
    features: options.Features = None,
    text: options.Text = None,
    categorical: options.Categorical = None,
    features_npy: options.FeaturesNpy = None,
    features_npz: options.FeaturesNpz = None,
    knn: options.Knn = None,
    ignore_unknown: options.IgnoreUnknown = False,
    likelihood: Annotated[
        str | None,
        typer.Option(
            help="softmax (default), robustmax (the paper's), or bernoulli for two classes.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    filter: Annotated[
        str | None,
        typer.Option(
            help="auto (default): what predicts the labels best when each is left out in turn; "
            "mean: a node is what its neighbourhood is; pagerank: what lies near it, further "
            "off too; identity: the edges do not matter. Python has more.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="paper: exactly the published model.", rich_help_panel=_MODEL),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit a model to a graph in tables and write it to a file.

    Two tables are enough: one with a row per node (ids, labels where known, features) and one
    with a row per edge. Columns are given by name, or by position from 1. The model file carries
    the graph, so that the other commands need nothing else.

    nodegp fit --nodes papers.csv --edges cites.csv --id paper --label topic -o topics.nodegp
    """
    import time
    from dataclasses import replace

    from nodegp.cli.modelfile import ModelFile
    from nodegp.estimators import GraphGPClassifier
    from nodegp.files import check_place
    from nodegp.io import read_tables

    if label is None and labels is None:
        raise ValueError("say where the labels are: --label COLUMN, or --labels FILE")
    check_place(out)
    found = options.table_source(
        nodes=nodes,
        edges=edges,
        id=id,
        label=label,
        labels=labels,
        source=source,
        target=target,
        weight=weight,
        features=features,
        text=text,
        categorical=categorical,
        features_npy=features_npy,
        features_npz=features_npz,
        knn=knn,
        ignore_unknown=ignore_unknown,
    )
    with show.waiting("reading", quiet):
        loaded = read_tables(replace(found, counts="tfidf" if preset == "paper" else "damped"))
    if not (quiet or as_json):
        show.facts(loaded.summary.rows(), "What came in")
    for remark in loaded.summary.remarks():
        show.note(remark, quiet)
    y, unlabelled = loaded.targets()
    model = GraphGPClassifier(
        likelihood=likelihood,
        filter=filter,
        preset=preset,
        features="raw",  # the tables' encoder has done all there is to do
        unlabelled=unlabelled,
        random_state=seed,
    )
    started = time.perf_counter()
    with show.waiting("fitting", quiet):
        model.fit(loaded.graph, y)
    seconds = time.perf_counter() - started
    tables = {"encoder": loaded.encoder.to_dict(), "id": id or "id", "label": label or "label"}
    file = ModelFile(model, tables)
    file.write(out)
    if as_json:
        result = describe(file) | {"seconds": seconds, "file": str(out)}
        show.as_json({"input": loaded.summary.to_dict(), "model": result})
    elif not quiet:
        show.facts([*model_facts(file), ("seconds", f"{seconds:.2f}")], "The model")
        print(f"written to {out}")


def describe(file: Any) -> dict[str, Any]:
    """A model's numbers, for JSON."""
    from nodegp import evaluation

    model = file.model
    return {
        "classes": model.classes_,
        "labels": len(model.labelled_),
        "label_counts": {str(name): int((model.labels_ == name).sum()) for name in model.classes_},
        "nodes": file.graph.n_nodes,
        "edges": file.graph.n_edges,
        "features": file.graph.n_features,
        "recipe": next((score.name for score in model.selection_ if score.chosen), None),
        "selection": [score._asdict() for score in model.selection_],
        "filter": type(model.filter_).__name__,
        "kernel": " + ".join(type(kernel).__name__ for kernel in model.model_.kernels),
        "likelihood": type(model.likelihood_).__name__,
        "hyperparameters": model.prior_.parameters() | model.likelihood_.parameters(),
        "temperature": model.temperature_,
        "elbo": model.elbo_,
        "converged": model.converged_,
        "leave_one_out": evaluation.leave_one_out(model).scores(),
    }


def model_facts(file: Any) -> list[tuple[str, str]]:
    """The same, for people."""
    from nodegp.io.tables import amount

    found = describe(file)
    scores = found["leave_one_out"]
    learnt = ", ".join(f"{name} {float(v):.3g}" for name, v in found["hyperparameters"].items())
    return [
        ("labels", f"{found['labels']:,} in {amount(len(found['classes']), 'class', 'classes')}"),
        (
            "leave-one-out",
            f"{scores['accuracy']:.1%} right (± {scores['accuracy_error']:.1%}), log loss "
            f"{scores['log_loss']:.3f}, calibration error {scores['calibration_error']:.3f}",
        ),
        ("model", f"{found['recipe'] or found['filter'] + ' filter'}, {found['likelihood']}"),
        ("hyper-parameters", learnt or "none"),
        ("temperature", f"{found['temperature']:.2f}"),
        (
            "evidence bound",
            f"{found['elbo']:.2f}" + ("" if found["converged"] else " (not converged)"),
        ),
    ]
