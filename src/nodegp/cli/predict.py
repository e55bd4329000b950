"""`nodegp predict`: a row of probabilities for every node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    coverage: options.Coverage = None,
    abstain_below: options.AbstainBelow = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict the class of every node the model was fitted on, or of new nodes.

    One row per node: id, the likeliest label, its probability, a column for each class, the
    entropy (how doubtful, in nats), and information: the part of the entropy that more labels
    could resolve. Under robust-max that is all of it but a constant; softmax tells doubt that
    labels would resolve from noise that stays.

    With --coverage there is a column set: the classes that the node may have, the likeliest first,
    with | between them in a text file. With --abstain-below the label is empty where the model is
    not sure enough; the other columns stay.

    With --nodes, predictions are for the rows of that table: new nodes, which --edges joins to
    each other and to the nodes the model knows, without a new fit.
    """
    from nodegp.cli.modelfile import ModelFile
    from nodegp.io import join_tables
    from nodegp.io.tables import amount
    from nodegp.io.write import check_output, write_tables
    from nodegp.propagation import watched

    options.check_doubt(coverage, abstain_below)
    options.check_edges_or_knn(edges, knn)
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
    else:
        _refuse_without_nodes(
            {
                "--edges": edges,
                "--knn": knn,
                "--features-npy": features_npy,
                "--features-npz": features_npz,
            }
        )
    n_rows = graph.n_nodes if asked is None else len(asked)
    blocks = file.model.predict_frames(
        graph, asked, _ROWS, coverage=coverage, abstain_below=abstain_below
    )
    tally = _Tally(len(file.model.classes_), coverage, abstain_below)
    blocks = show.counted(blocks, -(-n_rows // _ROWS), "predicting", quiet)
    blocks = tally.over(blocks)
    with watched(lambda line: show.note(line, quiet)):  # the blocks are made as they are written
        if as_json and out is None:
            show.as_json([row for block in blocks for row in block.to_pylist()])
        else:
            write_tables(out, blocks)
    if not (as_json and out is None):
        if as_json:
            show.as_json({"predictions": tally.rows, "file": str(out)} | tally.to_dict())
        elif out is not None and not quiet:
            print(f"{amount(tally.rows, 'prediction')} written to {out}")
    for remark in tally.remarks():
        show.note(remark, quiet)


class _Tally:
    """Counts, as tables pass, the labels left open and the classes in sets."""

    def __init__(self, n_classes: int, coverage: float | None, abstain_below: float | None):
        self.n_classes, self.coverage, self.abstain_below = n_classes, coverage, abstain_below
        self.rows = self.open = self.in_sets = 0

    def over(self, tables: Iterable[Any]) -> Iterator[Any]:
        import pyarrow.compute as pc

        for table in tables:
            self.rows += len(table)
            self.open += table.column("label").null_count
            if self.coverage is not None:
                self.in_sets += pc.sum(pc.list_value_length(table.column("set"))).as_py() or 0
            yield table

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.abstain_below is not None:
            found["abstained"] = self.open
        if self.coverage is not None:
            found["mean_set_size"] = self.in_sets / max(self.rows, 1)
        return found

    def remarks(self) -> list[str]:
        from nodegp.io.tables import amount

        found = []
        if self.abstain_below is not None:
            found.append(
                f"{self.open:,} of {amount(self.rows, 'node')} left open, where no class reaches "
                f"a probability of {self.abstain_below:g}"
            )
        if self.coverage is not None:
            size = f"sets hold {self.in_sets / max(self.rows, 1):.2f} classes on average"
            every = self.n_classes > 1 and self.in_sets == self.n_classes * self.rows
            few = f", which is all: too few labels for a coverage of {self.coverage:g}"
            found.append(size + (few if every else ""))
        return found


def _refuse_without_nodes(given: dict[str, Any]) -> None:
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{option} without --nodes: give the new nodes too")


def _id_column(file: Any, nodes: Path) -> str | None:
    """The model's own name of the ids, if the table has it."""
    from nodegp.io.tables import TableFile

    return file.id_column if file.id_column in TableFile.open(nodes).names else None
