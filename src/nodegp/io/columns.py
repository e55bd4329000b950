"""Which columns of a table are features, and what kind each of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from nodegp.io.tables import Column, TableFile, is_list, is_number, is_text

__all__ = ["FEATURE", "FeatureColumns", "feature_columns", "named_columns"]

FEATURE, CATEGORY, TEXT = "a feature", "categorical", "text"


@dataclass(frozen=True)
class FeatureColumns:
    """Columns by kind, and those left out with the reason."""

    numbers: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        return [*self.numbers, *self.categories, *self.texts, *self.lists]


def named_columns(
    file: TableFile,
    other_uses: Mapping[str, str],
    features: Sequence[Column] | None,
    categorical: Sequence[Column] | None,
    text: Sequence[Column] | None,
) -> dict[str, str]:
    """What each column that the user named is for; ``other_uses`` are columns with another use."""
    uses = dict(other_uses)
    for columns, what, use in (
        (features, "features", FEATURE),
        (categorical, "categorical features", CATEGORY),
        (text, "text", TEXT),
    ):
        for name in [file.find(column, what) for column in columns or ()]:
            if name in uses and {use, uses[name]} != {FEATURE, CATEGORY}:
                raise ValueError(
                    f"column {name!r} of {file.path} is named twice, as {uses[name]} and as {use}"
                )
            uses[name] = use
    return uses


def feature_columns(
    schema: pa.Schema, path: str, uses: Mapping[str, str], choose: bool
) -> FeatureColumns:
    """Sort the columns of a table by kind: those named as features or, if it is for us to
    ``choose``, all that have no other use."""
    columns = FeatureColumns(
        categories=[name for name, use in uses.items() if use == CATEGORY],
        texts=[name for name, use in uses.items() if use == TEXT],
    )
    kinds = dict(zip(schema.names, schema.types, strict=True))
    for name in kinds if choose else uses:
        if uses.get(name, FEATURE) != FEATURE:
            continue
        kind = kinds[name]
        if is_number(kind):
            columns.numbers.append(name)
        elif is_list(kind):
            columns.lists.append(name)
        elif pa.types.is_null(kind):
            columns.left_out[name] = "empty"
        elif choose:
            columns.left_out[name] = "text" if is_text(kind) else str(kind)
        elif is_text(kind):
            columns.categories.append(name)
        else:
            raise ValueError(
                f"column {name!r} of {path} holds {kind}, which cannot be a feature; "
                "turn it into numbers or text first"
            )
    return columns
