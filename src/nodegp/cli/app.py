"""The `nodegp` command: its options, its subcommands, and how errors reach the user."""

from __future__ import annotations

import inspect
import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from nodegp import plugins
from nodegp.cli import labelling, models, stores, tables

__all__ = ["app", "main"]

app = typer.Typer(
    name="nodegp",
    help="Bayesian semi-supervised learning on graphs with Gaussian processes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _help(command: Callable[..., Any]) -> str:
    """The docstring of a command with each paragraph on one line, for a terminal of any width."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


_LONGEST = 800  # characters of an error
_OWN = "Your own graph"
_PAPER = "The paper and its data"
for _command in (
    *(tables.example, tables.fit, tables.predict, models.evaluate, tables.query),
    *(labelling.label, models.update, models.explain, models.info, stores.prepare),
):
    app.command(help=_help(_command), rich_help_panel=_OWN)(_command)
app.command(help=_help(models.demo), rich_help_panel=_PAPER)(models.demo)
for _name, _command in plugins.commands().items():
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name, rich_help_panel=_PAPER)
    else:
        app.command(_name, help=_help(_command), rich_help_panel=_PAPER)(_command)


def _version(show: bool) -> None:
    if show:
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


def main() -> None:
    """Run the command line; bad input ends in one line on standard error and exit code 1."""
    if hasattr(sys.stdout, "reconfigure"):
        # A name that the terminal cannot show is no reason to fail when all is done.
        sys.stdout.reconfigure(errors="backslashreplace")
    shown_by_python = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, UserWarning):  # ours, for whoever calls; others are slips of ours
            typer.echo(f"nodegp: {message}", err=True)
        else:
            shown_by_python(message, category, *where, **more)

    warnings.showwarning = show
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        typer.echo(f"nodegp: {_in_words(error)}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.echo("nodegp: stopped", err=True)
        sys.exit(130)
    finally:
        warnings.showwarning = shown_by_python


def _in_words(error: Exception) -> str:
    """One line, and no page of it: what a user's file holds may be quoted in it."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {error.strerror.lower()}"
    text = " ".join(text.splitlines())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 200]} ... {text[-195:]}"
