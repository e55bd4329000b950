"""The `nodegp` command: its options, its subcommands, and how errors reach the user."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

app = typer.Typer(
    name="nodegp",
    help="Bayesian semi-supervised learning on graphs with Gaussian processes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from nodegp import __version__

        typer.echo(f"nodegp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Bayesian semi-supervised learning on graphs with Gaussian processes."""


@app.command()
def demo(
    likelihood: Annotated[
        str, typer.Option(help="robustmax (the paper's) or softmax.")
    ] = "robustmax",
    calibrate: Annotated[
        bool | None,
        typer.Option("--calibrate/--no-calibrate", help="Temperature from leave-one-out."),
    ] = None,
    doubtful: Annotated[int, typer.Option(min=0, help="How many doubtful nodes to list.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print numbers as JSON.")] = False,
) -> None:
    """Fit the bundled Cora citation graph with its 140 public labels and show the result.

    Cora: 2,708 papers in 7 topics, linked by citations. Takes about a second.
    """
    from nodegp.cli.demo import run

    run(likelihood, calibrate, doubtful, as_json)


def main() -> None:
    """Run the command line; bad input ends in one line on standard error and exit code 1."""
    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        typer.echo(f"nodegp: {error}", err=True)
        sys.exit(1)
