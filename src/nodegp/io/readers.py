"""From a user's columns to numbers: numbers, categories, words, embeddings, and matrices in files.

A reader is fitted on the rows that a model is fitted on and keeps what new rows need to give
the same columns: means for gaps, categories, words. Scaling is not done here; see ``encoder``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nodegp.component import Component
from nodegp.declared import check_shapes
from nodegp.io.arrays import in_range
from nodegp.io.ids import TEXT, Index, names_of
from nodegp.io.tables import Table, is_list, is_number, is_text
from nodegp.io.words import amount, listed

__all__ = [
    "Bags",
    "Categories",
    "Findings",
    "Lists",
    "MatrixFile",
    "Numbers",
    "Reader",
    "Words",
    "list_reader",
    "numbers",
]

MOST_CATEGORIES = 1_000
MOST_WORDS = 20_000


# What was noticed while readers were fitted, by column: "dropped_columns" has why one says nothing,
# "missing_values" how many gaps it has.
Findings = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Reader(Component):
    """What readers share: they are plain data, and say which columns they need."""

    as_written: ClassVar[bool] = False  # a text file must not have its columns parsed

    names: tuple[str, ...]

    @property
    def n_columns(self) -> int:
        """Of the matrix."""
        raise NotImplementedError

    def read(self, table: Table) -> Any:
        """The raw matrix of these rows: csr or float64."""
        raise NotImplementedError

    def describe(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Numbers(Reader):
    """Numeric and boolean columns. A gap is filled with the column's mean; a column that had
    gaps when fitted gets another beside it that says where (1 at a gap)."""

    means: tuple[float, ...]
    with_gaps: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes(self, names="N", means="N")

    @property
    def n_columns(self) -> int:
        return len(self.names) + len(self.with_gaps)

    @classmethod
    def fit(cls, table: Table, names: list[str], findings: Findings) -> Self | None:
        """The reader; None if no column says anything."""
        means: dict[str, float] = {}
        for name in names:
            values = numbers(table, name)
            present = values[~np.isnan(values)] if np.isnan(values.min()) else values
            n_gaps = len(values) - len(present)
            low, high = (present.min(), present.max()) if len(present) else (0, 0)
            if not len(present):
                findings["dropped_columns"][name] = "empty"
            elif high - low <= 1e-9 * max(abs(high), abs(low)) and not n_gaps:
                findings["dropped_columns"][name] = "constant"
            else:
                means[name] = float(present.mean())
                if n_gaps:
                    findings["missing_values"][name] = n_gaps
        with_gaps = tuple(findings["missing_values"])
        return cls(tuple(means), tuple(means.values()), with_gaps) if means else None

    def read(self, table: Table) -> np.ndarray:
        matrix = np.zeros((len(table), self.n_columns))
        marks = {name: place for place, name in enumerate(self.with_gaps, len(self.names))}
        for n, (name, mean) in enumerate(zip(self.names, self.means, strict=True)):
            matrix[:, n] = numbers(table, name)
            is_gap = np.isnan(matrix[:, n])
            matrix[is_gap, n] = mean
            if name in marks:
                matrix[:, marks[name]] = is_gap
        return matrix

    def describe(self) -> str:
        return f"{amount(len(self.names), 'numeric column')} ({listed(self.names)})"


def numbers(table: Table, name: str) -> np.ndarray:
    """A column as float64, NaN at gaps."""
    column = table.column(name)
    if not is_number(column.type) and not pa.types.is_null(column.type):
        kind = "text" if is_text(column.type) else str(column.type)
        raise ValueError(f"{table.where(name)} holds {kind}, not numbers{_first_word(column)}")
    values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    values = values.astype(np.float64, copy=False)  # a column of gaps alone comes as objects
    # The extremes tell most columns apart without another pass; a gap hides them.
    if len(values) and not in_range(np.array([values.max(), values.min()])).all():
        is_bad = ~in_range(values) & ~np.isnan(values)
        table.refuse(name, is_bad, "has an infinite or far too large number")
    return values


def _first_word(column: pa.ChunkedArray) -> str:
    """The first text that is no number, if that can be told."""
    for row, value in enumerate(column.to_pylist() if is_text(column.type) else [], 1):
        try:
            float(value or 0)
        except ValueError:
            return f": {value[:40]!r} in row {row}"
    return ""


@dataclass(frozen=True)
class Categories(Reader):
    """Columns of a few different values each, one-hot; nothing for a gap or a value not met."""

    values: tuple[tuple[str, ...], ...]
    as_written: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes(self, names="N", values="N")

    @property
    def n_columns(self) -> int:
        return sum(len(values) for values in self.values)

    @classmethod
    def fit(cls, table: Table, names: list[str], findings: Findings) -> Self | None:
        """The reader; None if no column says anything."""
        categories: dict[str, tuple[str, ...]] = {}
        for name in names:
            column = _category(table, name)
            values = sorted(pc.unique(column.drop_null()).to_pylist())
            if len(values) > MOST_CATEGORIES:
                raise ValueError(
                    f"{table.where(name)} has {len(values)} different values, too many for "
                    f"categories (at most {MOST_CATEGORIES}); leave it out, or give it as text"
                )
            if not values:
                findings["dropped_columns"][name] = "empty"
            elif len(values) == 1 and not column.null_count:
                findings["dropped_columns"][name] = "constant"
            else:
                categories[name] = tuple(values)
        return cls(tuple(categories), tuple(categories.values())) if categories else None

    def read(self, table: Table) -> sp.csr_array:
        parts = []
        for name, values in zip(self.names, self.values, strict=True):
            place = Index(pa.array(values, TEXT)).find(_category(table, name))
            rows = np.flatnonzero(place >= 0)
            shape = (len(place), len(values))
            parts.append(sp.csr_array((np.ones(len(rows)), (rows, place[rows])), shape=shape))
        return sp.csr_array(sp.hstack(parts, format="csr"))

    def describe(self) -> str:
        columns = amount(len(self.names), "categorical column")
        width = amount(self.n_columns, "category", "categories")
        return f"{columns} ({listed(self.names)}; {width})"


def _category(table: Table, name: str) -> pa.ChunkedArray:
    return names_of(table, name, "categories").cast(TEXT)


@dataclass(frozen=True)
class Words(Reader):
    """How often each known word stands in a text. Known are the words of two letters or more
    that at least two of the texts fitted on have; if there are too many, the commonest."""

    words: tuple[str, ...]
    as_written: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes(self, {"N": 1}, names="N")

    @property
    def n_columns(self) -> int:
        return len(self.words)

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
        return cls((name,), tuple(vectorizer.get_feature_names_out().tolist()))

    def read(self, table: Table) -> sp.csr_array:
        vectorizer = _vectorizer(vocabulary=list(self.words))
        return sp.csr_array(vectorizer.transform(_texts(table, *self.names)))

    def describe(self) -> str:
        return f"text of {self.names[0]!r} ({amount(len(self.words), 'word')})"


def _texts(table: Table, name: str) -> list[str]:
    column = table.column(name)
    if not is_text(column.type) and not pa.types.is_null(column.type):
        raise ValueError(f"{table.where(name)} holds {column.type}, not text")
    return [text or "" for text in column.to_pylist()]


def _vectorizer(**settings: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer  # slow to import

    return CountVectorizer(dtype=np.float64, **settings)


@dataclass(frozen=True)
class Lists(Reader):
    """A column of lists of numbers, all of one length: dense embeddings. A gap gives zeros."""

    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shapes(self, {"N": 1}, names="N")

    @property
    def n_columns(self) -> int:
        return self.width

    @classmethod
    def fit(cls, table: Table, name: str) -> Self:
        lengths = pc.unique(pc.list_value_length(table.column(name)).drop_null()).to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            raise ValueError(
                f"{table.where(name)} has lists of different lengths or none at all; an embedding "
                "has as many numbers for every node"
            )
        return cls((name,), int(lengths[0]))

    def read(self, table: Table) -> np.ndarray:
        (name,) = self.names
        column, where = table.column(name), table.where(name)
        if not is_list(column.type):
            raise ValueError(f"{where} holds {column.type}, not lists of numbers")
        is_other = pc.not_equal(pc.list_value_length(column), self.width)
        table.refuse(name, is_other, f"has a list of another length than {self.width}")
        values = pc.list_flatten(column)
        flat = values.to_numpy(zero_copy_only=False)
        if values.null_count or not in_range(flat).all():
            raise ValueError(f"{where} has a gap, NaN, infinity or far too large number in a list")
        dtype = np.float32 if flat.dtype.itemsize < 8 and flat.dtype.kind == "f" else np.float64
        matrix = np.zeros((len(column), self.width), dtype)
        matrix[pc.is_valid(column).to_numpy(zero_copy_only=False)] = flat.reshape(-1, self.width)
        return matrix

    def describe(self) -> str:
        return f"embedding {self.names[0]!r} ({amount(self.width, 'number')})"


@dataclass(frozen=True)
class Bags(Reader):
    """A column of lists of the numbers of features that a node has; nothing for a gap, or for a
    number not met when fitted."""

    known: tuple[int, ...]

    @classmethod
    def fit(cls, table: Table, name: str) -> Self:
        values = pc.unique(pc.list_flatten(table.column(name))).drop_null()
        known = sorted(values.to_pylist())
        if known and known[0] < 0:
            raise ValueError(
                f"{table.where(name)} has lists of different lengths, which are the numbers of "
                f"features, and {known[0]} in one of them; these count from 0"
            )
        return cls((name,), tuple(known))

    @property
    def n_columns(self) -> int:
        return len(self.known)

    def read(self, table: Table) -> sp.csr_array:
        (name,) = self.names
        column = table.column(name)
        if not is_list(column.type):
            raise ValueError(f"{table.where(name)} holds {column.type}, not lists of numbers")
        lists = column.cast(pa.large_list(pa.int64())).combine_chunks()
        rows, values = pc.list_parent_indices(lists), pc.list_flatten(lists)
        place = Index(pa.array(self.known, pa.int64())).find(values)
        is_known = place >= 0
        shape = (len(column), self.n_columns)
        entries = (rows.to_numpy()[is_known], place[is_known])
        return sp.csr_array((np.ones(int(is_known.sum())), entries), shape=shape)

    def describe(self) -> str:
        return f"lists {self.names[0]!r} ({amount(self.n_columns, 'feature')})"


def list_reader(table: Table, name: str) -> Lists | Bags:
    """Lists of whole numbers that differ in length are of features that a node has."""
    column = table.column(name)
    lengths = pc.unique(pc.list_value_length(column).drop_null())
    is_bag = len(lengths) > 1 and pa.types.is_integer(column.type.value_type)
    return (Bags if is_bag else Lists).fit(table, name)


@dataclass(frozen=True)
class MatrixFile(Reader):
    """The rows of a matrix in a file of its own, dense (.npy) or sparse (.npz)."""

    ending: str
    width: int

    @property
    def n_columns(self) -> int:
        return self.width

    def read(self, table: Table) -> Any:
        matrix = table.matrices.get(self.ending)
        option = f"--features-{self.ending} (in Python features_{self.ending}=)"
        if matrix is None:
            raise ValueError(
                f"the model was fitted with a {self._word} matrix; give one for these nodes too, "
                f"with {option}"
            )
        if matrix.shape[1] != self.width:
            raise ValueError(
                f"{option} has {amount(matrix.shape[1], 'column')}; the model was fitted with "
                f"{self.width}"
            )
        return matrix

    def describe(self) -> str:
        return f"{self._word} matrix ({amount(self.width, 'column')})"

    @property
    def _word(self) -> str:
        return "sparse" if self.ending == "npz" else "dense"
