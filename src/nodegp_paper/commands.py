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
        typer.Option(help="Data sets, such as cora,pubmed; all by default."),
    ] = None,
    models: Annotated[
        str | None,
        typer.Option(help="Methods, such as nodegp,ggp,gcn,lp; all by default."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(help="Engine of the GGP: paper (Adam, slow), default (fast), or both."),
    ] = "both",
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Seeds of every method; by default the number that each needs."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, each with one thread.")] = 1,
    out: Annotated[
        Path, typer.Option(help="Folder for runs, tables and report; existing runs are reused.")
    ] = Path("reproduction"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version of everything, on Cora: a minute.")
    ] = False,
    data_dir: Annotated[
        str | None,
        typer.Option(help="Folder with the Planetoid files; default: NODEGP_DATA, or a download."),
    ] = None,
) -> None:
    """Run the paper's experiments and compare the results with the printed numbers.

    Every finished run is one line of OUT/runs.jsonl. You can interrupt it at any time; the same
    command continues from there. OUT/report.html is the report; tables and figures are beside it.

    The whole paper takes hours, most of them in the paper's own optimiser: try
    `nodegp reproduce all --engine default --jobs 2` first, which takes minutes.

    "beyond" compares the default model with the paper's, graph neural networks and others: random
    splits, few labels, calibration, active learning and seconds (OUT/beyond.html). It takes hours.

    "zoo" tests the default on nine further graphs, which `nodegp data list` names and which are
    not downloaded (OUT/zoo.html, and the same as OUT/zoo.md). "zoo-splits" compares methods on
    the same labels, "zoo-active" compares strategies of active learning, and "zoo-loo" compares
    leave-one-out scores with the true ones.
    """
    from nodegp_paper.experiments.command import run

    run(targets, datasets, models, engine, seeds, jobs, out, quick, data_dir)
