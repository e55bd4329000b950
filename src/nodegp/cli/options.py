"""Options that several commands share, and how columns and lists are written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nodegp.io import TableSource

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print results as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but results.")]
Seed = Annotated[int, typer.Option(help="For whatever is drawn at random.")]

_DOUBT = "What it does not know"
Coverage = Annotated[
    float | None,
    typer.Option(
        help="Sets of classes, of which about this share hold the true one: 0.9.",
        rich_help_panel=_DOUBT,
    ),
]
AbstainBelow = Annotated[
    float | None,
    typer.Option(
        help="No label for a node whose likeliest class has less than this probability: 0.8.",
        rich_help_panel=_DOUBT,
    ),
]

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


def check_doubt(coverage: float | None, abstain_below: float | None) -> None:
    """Refuse shares that are none; a percentage is the likely slip."""
    for option, value in (("--coverage", coverage), ("--abstain-below", abstain_below)):
        if value is not None and not 0 < value < 1:
            guess = f"; for {value:g} % write {value / 100:g}" if 10 <= value < 100 else ""
            raise ValueError(f"{option} must lie between 0 and 1, got {value:g}{guess}")


def table_source(
    *,
    edges: Path | None,
    source: str | None,
    target: str | None,
    features: str | None,
    text: str | None,
    categorical: str | None,
    knn: int | None,
    **others: Any,
) -> TableSource:
    """Files that describe a graph, from the options as they were written."""
    from nodegp.io import TableSource

    if edges is None and knn is None:
        raise ValueError(
            "give --edges FILE, or --knn NUMBER to link each node to those most like it by features"
        )
    check_edges_or_knn(edges, knn)
    return TableSource(
        edges=edges,
        edge_columns=edge_columns(source, target),
        features=names(features),
        text=names(text),
        categorical=names(categorical),
        knn=knn,
        **others,
    )


def check_edges_or_knn(edges: Path | None, knn: int | None) -> None:
    if edges is not None and knn is not None:
        raise ValueError("give --edges or --knn, not both")


def edge_columns(source: str | None, target: str | None) -> tuple[str, str] | None:
    """The two columns of an edge table; None for the first two."""
    if source is None and target is None:
        return None
    return source or "1", target or "2"
