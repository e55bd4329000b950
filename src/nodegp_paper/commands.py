"""`nodegp reproduce`: the paper's tables and figures, and what goes beyond, from one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["reproduce"]


def reproduce(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="table1, table2, table3, figure2, claims, or all of these; beyond; "
            "zoo-splits, zoo-active, zoo-loo, or zoo for all three.",
        ),
    ],
    datasets: Annotated[
        str | None,
        typer.Option(help="Some of cora,citeseer,pubmed, of the zoo also acm and so on; else all."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(help="Rows of the tables, such as nodegp,ggp,gcn,lp; all by default."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="Of the GGP: paper (its own recipe, slow), default (fast), or both."),
    ] = "both",
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Restarts of every model; each has its own number by default."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, with one thread each.")] = 1,
    out: Annotated[
        Path, typer.Option(help="Folder for runs, tables and report; runs found there are kept.")
    ] = Path("reproduction"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version of everything, on Cora: a minute.")
    ] = False,
    data_dir: Annotated[
        str | None,
        typer.Option(help="Folder with the Planetoid files; else NODEGP_DATA, else fetched."),
    ] = None,
) -> None:
    """Run the paper's experiments and set the results beside the printed numbers.

    Every finished run is one line of OUT/runs.jsonl. Stop at any time; the same command goes on
    from there. OUT/report.html shows everything; tables and figures are beside it.

    The whole paper takes hours, most of them in the paper's own optimiser: try
    `nodegp reproduce all --engine default --jobs 2` first, which takes minutes.

    "beyond" compares the default model with the paper's, graph networks and others on random
    splits, few labels, calibration, active learning and seconds: OUT/beyond.html. It takes hours.

    "zoo" asks whether the default holds on nine graphs more, which `nodegp data list` names and
    nothing fetches: OUT/zoo.html, and the same as OUT/zoo.md. "zoo-splits" compares methods with
    the same labels, "zoo-active" strategies for asking, and "zoo-loo" sets the model's
    leave-one-out scores against the truth, over as many draws as SEEDS says.
    """
    from nodegp_paper.experiments.command import run

    run(targets, datasets, models, engine, seeds, jobs, out, quick, data_dir)
