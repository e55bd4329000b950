"""`nodegp predict`: a row of probabilities for every node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nodegp.cli import options, show

_ROWS = 50_000  # at a time


def command(
    model: options.ModelFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where to: .csv, .tsv (also .gz) or .parquet; else CSV on screen."
        ),
    ] = None,
    nodes: options.OptionalNodes = None,
    edges: options.Edges = None,
    id: options.Id = None,
    source: options.Source = None,
    target: options.Target = None,
    weight: options.Weight = None,
    features_npy: options.FeaturesNpy = None,
    features_npz: options.FeaturesNpz = None,
    knn: options.Knn = None,
    ignore_unknown: options.IgnoreUnknown = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict the class of every node the model was fitted on, or of new nodes.

    One row per node: id, the likeliest label, its probability, a column for each class, the
    entropy (how doubtful, in nats), and information: the part of the entropy that more labels
    could resolve. Under robust-max that is all of it but a constant; softmax tells doubt that
    labels would resolve from noise that stays.

    With --nodes, predictions are for the rows of that table: new nodes, which --edges joins to
    each other and to the nodes the model knows, without a new fit.
    """
    from nodegp.cli.modelfile import ModelFile
    from nodegp.io import join_tables
    from nodegp.io.write import check_output, write_tables

    if out is not None:
        check_output(out)
    file = ModelFile.read(model)
    graph, asked = file.graph, None
    if nodes is not None:
        with show.waiting("reading", quiet):
            graph, asked = join_tables(
                file.graph,
                file.encoder,
                nodes,
                edges,
                id=id or _id_column(file, nodes),
                edge_columns=options.edge_columns(source, target),
                weight=weight,
                features_npy=features_npy,
                features_npz=features_npz,
                knn=knn,
                ignore_unknown=ignore_unknown,
            )
    elif edges is not None:
        raise ValueError("--edges without --nodes: give the new nodes too")
    n_rows = graph.n_nodes if asked is None else len(asked)
    blocks = file.model.predict_frames(graph, asked, _ROWS)
    blocks = show.counted(blocks, -(-n_rows // _ROWS), "predicting", quiet)
    if as_json and out is None:
        show.as_json([row for block in blocks for row in block.to_pylist()])
        return
    written = write_tables(out, blocks)
    if as_json:
        show.as_json({"predictions": written, "file": str(out)})
    elif out is not None and not quiet:
        print(f"{written:,} predictions written to {out}")


def _id_column(file: Any, nodes: Path) -> str | None:
    """The model's own name of the ids, if the table has it."""
    from nodegp.io.tables import TableFile

    return file.id_column if file.id_column in TableFile.open(nodes).names else None
