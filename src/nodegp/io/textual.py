"""Columns of text as features: categories and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nodegp.io.ids import names_of
from nodegp.io.readers import Inputs, Reader
from nodegp.io.tables import Table, amount

MOST_CATEGORIES = 1_000
MOST_WORDS = 20_000


@dataclass(frozen=True)
class Categories(Reader):
    """Columns of a few different values each, one-hot; nothing for a gap or a value not met."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @classmethod
    def fit(cls, table: Table, names: list[str]) -> tuple[Self | None, dict[str, str]]:
        """The reader, and the columns that say nothing and why."""
        kept: dict[str, tuple[str, ...]] = {}
        dropped = {}
        for name in names:
            column = _category(table, name)
            found = sorted(pc.unique(column.drop_null()).to_pylist())
            if len(found) > MOST_CATEGORIES:
                raise ValueError(
                    f"{table.where(name)} has {len(found)} different values, too many for "
                    f"categories (at most {MOST_CATEGORIES}); leave it out, or give it as text"
                )
            if not found:
                dropped[name] = "empty"
            elif len(found) == 1 and not column.null_count:
                dropped[name] = "constant"
            else:
                kept[name] = tuple(found)
        return (cls(tuple(kept), tuple(kept.values())) if kept else None), dropped

    def read(self, inputs: Inputs) -> sp.csr_array:
        n_rows = len(inputs.table)
        rows, places, start = [], [], 0
        for name, values in zip(self.names, self.values, strict=True):
            column = _category(inputs.table, name)
            found = pc.index_in(column, value_set=pa.array(values, column.type))
            place = pc.fill_null(found, -1).to_numpy(zero_copy_only=False)
            rows.append(np.flatnonzero(place >= 0))
            places.append(place[place >= 0] + start)
            start += len(values)
        at = (np.concatenate(rows), np.concatenate(places))
        return sp.csr_array((np.ones(len(at[0])), at), shape=(n_rows, start))

    def columns(self) -> list[str]:
        return list(self.names)

    def text_columns(self) -> list[str]:
        return list(self.names)

    def describe(self) -> str:
        width = sum(len(values) for values in self.values)
        columns = amount(len(self.names), "categorical column")
        return f"{columns} ({amount(width, 'category', 'categories')})"


def _category(table: Table, name: str) -> pa.ChunkedArray:
    return names_of(table, name, "categories").cast(pa.large_string())


def is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


@dataclass(frozen=True)
class Words(Reader):
    """How often each known word stands in a text. Known are the words of two letters or more
    that at least two of the texts fitted on have; if there are too many, the commonest."""

    name: str
    words: tuple[str, ...]

    @classmethod
    def fit(cls, table: Table, name: str) -> Self:
        vectorizer = _vectorizer(min_df=2, max_features=MOST_WORDS)
        try:
            vectorizer.fit(_texts(table, name))
        except ValueError:  # scikit-learn's way to say that no word is left
            raise ValueError(
                f"{table.where(name)} has no word that two nodes share, so its text says nothing "
                "of them; leave it out"
            ) from None
        return cls(name, tuple(vectorizer.get_feature_names_out().tolist()))

    def read(self, inputs: Inputs) -> sp.csr_array:
        vectorizer = _vectorizer(vocabulary=list(self.words))
        return sp.csr_array(vectorizer.transform(_texts(inputs.table, self.name)))

    def columns(self) -> list[str]:
        return [self.name]

    def text_columns(self) -> list[str]:
        return [self.name]

    def describe(self) -> str:
        return f"text of {self.name!r} ({amount(len(self.words), 'word')})"


def _texts(table: Table, name: str) -> list[str]:
    column = table.column(name)
    if not is_text(column.type) and not pa.types.is_null(column.type):
        raise ValueError(f"{table.where(name)} holds {column.type}, not text")
    return [text or "" for text in column.to_pylist()]


def _vectorizer(**settings: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer  # slow to import

    return CountVectorizer(dtype=np.float64, **settings)
