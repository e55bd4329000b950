"""`nodegp query`: which nodes to ask an expert about next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nodegp.cli import options, show


def command(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A model file; none for a cold start.")
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="How many nodes to ask about.")] = 10,
    strategy: Annotated[
        str,
        typer.Option(
            help="sopt, vopt, hybrid, gp-vopt, gp-eer, s2, random, degree, entropy, margin, bald "
            "or eer; see below."
        ),
    ] = "sopt",
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Table to fill in: .csv, .tsv or .parquet."),
    ] = None,
    nodes: options.OptionalNodes = None,
    edges: options.Edges = None,
    id: options.Id = None,
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
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose the nodes whose labels would help most.

    The table has an empty label column: fill it in and give it to `nodegp update`. Without a
    model, --nodes and --edges describe a graph without any labels yet.

    sopt and vopt spread questions over the graph and need no labels; gp-vopt does so over what the
    model sees, features too, and hybrid over what it may have wrong; gp-eer asks where the model
    expects to have less wrong afterwards, and eer does so by the graph alone; s2 looks for the
    border between classes; entropy and margin ask where the model is least sure; bald where labels
    would teach it most; degree and random are what they say.
    """
    from nodegp.active import suggest
    from nodegp.cli.modelfile import ModelFile, ids_of
    from nodegp.io.write import check_output

    if out is not None:
        check_output(out)
    if (model is None) == (nodes is None):
        raise ValueError("give a model file, or --nodes (and --edges) for a cold start")
    names = {"id": id or "id", "label": "label"}
    if model is not None:
        file = ModelFile.read(model)
        graph, fitted, y = file.graph, file.model, file.y()
        names = {"id": file.id_column, "label": file.label_column}
    else:
        from nodegp.io import read_tables

        found = options.table_source(
            nodes=nodes,
            edges=edges,
            id=id,
            source=source,
            target=target,
            weight=weight,
            # Where there are edges they are enough to choose by: no columns but those named.
            features="" if features is None and knn is None else features,
            text=text,
            categorical=categorical,
            features_npy=features_npy,
            features_npz=features_npz,
            knn=knn,
            ignore_unknown=ignore_unknown,
        )
        with show.waiting("reading", quiet):
            loaded = read_tables(found)
        if not (quiet or as_json):
            show.facts(loaded.summary.rows(), "What came in")
        graph, fitted, y = loaded.graph, None, None
    with show.waiting("choosing", quiet):
        choice = suggest(
            graph, count, strategy, y=y, model=fitted, unlabelled=None, random_state=seed
        )
    ids = ids_of(graph)[choice.nodes]
    rows = _rows(ids, choice, graph, fitted, names)
    if choice.note:
        show.note(choice.note, quiet)
    if as_json:
        show.as_json({"strategy": strategy, "score": choice.score_means, "ask": rows})
    elif not quiet or out is None:
        columns = list(rows[0]) if rows else list(names.values())
        show.grid(columns, [[str(r[names["id"]]), *list(r.values())[1:]] for r in rows])
        if not quiet:
            print(f"score: {choice.score_means}")
    if out is not None:
        _write(out, rows)
        if not (quiet or as_json):
            filled = f"nodegp update {model} --labels {out}" if model is not None else ""
            then = f", then: {filled}" if filled else " and give it to `nodegp fit --labels`"
            print(f"written to {out}; fill in {names['label']!r}{then}")


def _rows(
    ids: Any, choice: Any, graph: Any, fitted: Any, names: dict[str, str]
) -> list[dict[str, Any]]:
    rows = [{names["id"]: name, names["label"]: ""} for name in ids.tolist()]
    if fitted is not None and len(choice.nodes):
        frame = fitted.predict_frame(graph, choice.nodes)
        for row, found in zip(rows, frame.to_pylist(), strict=True):
            row["predicted"] = found["label"]
            row["probability"] = found["probability"]
    for row, score, degree in zip(
        rows, choice.scores.tolist(), graph.degrees[choice.nodes].tolist(), strict=True
    ):
        row["degree"] = int(degree) if degree == int(degree) else degree
        row["score"] = score
    return rows


def _write(out: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa

    from nodegp.io.write import write_tables

    if not rows:
        raise ValueError("there is no node left to ask about, so no table was written")
    write_tables(out, [pa.Table.from_pylist(rows)])
