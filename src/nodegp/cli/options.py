"""Options that several commands share, and how columns and lists are written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but results.")]
Seed = Annotated[int, typer.Option(help="For whatever is drawn at random.")]

_FILES = "csv, tsv (both also gzipped) or parquet"
_TABLES = "Your tables"

Nodes = Annotated[
    Path, typer.Option(help=f"Table with a row per node: {_FILES}.", rich_help_panel=_TABLES)
]
OptionalNodes = Annotated[
    Path | None,
    typer.Option(help=f"Table with a row per node: {_FILES}.", rich_help_panel=_TABLES),
]
Edges = Annotated[
    Path | None,
    typer.Option(help=f"Table with a row per edge: {_FILES}.", rich_help_panel=_TABLES),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", help="Column of the nodes' ids; the first by default.", rich_help_panel=_TABLES
    ),
]
Source = Annotated[
    str | None,
    typer.Option(help="Column of the edges' one end; the first.", rich_help_panel=_TABLES),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column of the edges' other end; the second.", rich_help_panel=_TABLES),
]
Weight = Annotated[
    str | None, typer.Option(help="Column of the edges' weights.", rich_help_panel=_TABLES)
]
Features = Annotated[
    str | None,
    typer.Option(
        help="Columns that are features, with commas; all that hold numbers by default. "
        "Text in them is taken for categories.",
        rich_help_panel=_TABLES,
    ),
]
Text = Annotated[
    str | None,
    typer.Option(help="Columns of text, whose words become features.", rich_help_panel=_TABLES),
]
Categorical = Annotated[
    str | None,
    typer.Option(help="Columns of categories, if they look like numbers.", rich_help_panel=_TABLES),
]
FeaturesNpy = Annotated[
    Path | None,
    typer.Option(
        help="Dense features (numpy .npy), rows in the order of the nodes.", rich_help_panel=_TABLES
    ),
]
FeaturesNpz = Annotated[
    Path | None,
    typer.Option(
        help="Sparse features (scipy .npz), rows in the order of the nodes.",
        rich_help_panel=_TABLES,
    ),
]
Knn = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Without edges: link each node to so many nearest by features.",
        rich_help_panel=_TABLES,
    ),
]
IgnoreUnknown = Annotated[
    bool,
    typer.Option(
        "--ignore-unknown",
        help="Leave out edges and labels of ids that are not among the nodes.",
        rich_help_panel=_TABLES,
    ),
]


def names(value: str | None) -> list[str] | None:
    """A list written with commas; None if it was not given."""
    if value is None:
        return None
    return [name.strip() for name in value.split(",") if name.strip()]


def edge_columns(source: str | None, target: str | None) -> tuple[str, str] | None:
    """The two columns of an edge table; None for the first two."""
    if source is None and target is None:
        return None
    return source or "1", target or "2"
