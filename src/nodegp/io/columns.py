"""Which columns of a table are features, and what kind each of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from nodegp.io.tables import Column, TableFile, is_list, is_number, is_text

__all__ = [
    *("CATEGORY", "EXCLUDED", "FEATURE", "INDEX", "LIST", "NUMBER", "TEXT"),
    *("feature_columns", "named_columns"),
]

EXCLUDED = "excluded"
FEATURE = "a feature"  # of a kind that is not known yet
NUMBER, CATEGORY, TEXT, LIST = "numeric", "categorical", "text", "a list"
INDEX = "an index of pandas"  # which numbers rows, and is no feature unless it is named
_NAMED = {
    FEATURE: "features",
    CATEGORY: "categorical features",
    TEXT: "text",
    EXCLUDED: "columns to exclude",
}


def named_columns(
    file: TableFile, other_uses: Mapping[str, str], columns: Mapping[str, Sequence[Column] | None]
) -> dict[str, str]:
    """What each column that the user named is for: ``columns`` by use, and ``other_uses``."""
    uses = dict(other_uses)
    for use, what in _NAMED.items():
        for name in [file.find(column, what) for column in columns[use] or ()]:
            if name in uses and {use, uses[name]} != {FEATURE, CATEGORY}:
                raise ValueError(
                    f"column {name!r} of {file.path} is named twice, as {uses[name]} and as {use}"
                )
            uses[name] = use
    return uses


def feature_columns(
    schema: pa.Schema, path: str, uses: Mapping[str, str], choose: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """The kind of each column that is a feature, and the reason for each that is left out.

    Features are the columns named as such or, if it is for us to ``choose``, all that have no other
    use.
    """
    columns = {name: use for name, use in uses.items() if use in (CATEGORY, TEXT)}
    left_out: dict[str, str] = {}
    types = dict(zip(schema.names, schema.types, strict=True))
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    for name in types if choose else uses:
        if uses.get(name, FEATURE) != FEATURE:
            continue
        kind = types[name]
        if name in index and name not in uses:
            left_out[name] = INDEX
        elif is_number(kind):
            columns[name] = NUMBER
        elif is_list(kind):
            columns[name] = LIST
        elif pa.types.is_null(kind):
            left_out[name] = "empty"
        elif choose:
            left_out[name] = "text" if is_text(kind) else str(kind)
        elif is_text(kind):
            columns[name] = CATEGORY
        else:
            raise ValueError(
                f"column {name!r} of {path} holds {kind}, which cannot be a feature; "
                "turn it into numbers or text first"
            )
    return columns, left_out
