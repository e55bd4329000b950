"""From a user's columns to numbers: what every reader has, and the readers of matrices.

A reader is fitted on the rows that a model is fitted on and keeps what new rows need to give
the same columns: means for gaps, categories, words. Scaling is not done here; see ``encoder``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from nodegp.io.arrays import in_range
from nodegp.io.tables import Table, amount


@dataclass(frozen=True)
class Inputs:
    """All that describes some nodes: their table, and matrices with a row for each."""

    table: Table
    npy: np.ndarray | None = None
    npz: sp.csr_array | None = None


@dataclass(frozen=True)
class Reader:
    """What readers share: they are plain data, and say which columns they need."""

    registry: ClassVar[dict[str, type[Reader]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Reader.registry[cls.__name__] = cls

    def read(self, inputs: Inputs) -> Any:
        """The raw matrix of these rows: csr or float64."""
        raise NotImplementedError

    def columns(self) -> list[str]:
        return []

    def text_columns(self) -> list[str]:
        """Those of ``columns`` that a text file must not have parsed."""
        return []

    def describe(self) -> str:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        return {"type": type(self).__name__} | asdict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Reader:
        settings = dict(data)
        kind = Reader.registry[settings.pop("type")]
        return kind(**{k: _tuples(v) for k, v in settings.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Lists(Reader):
    """A column of lists of numbers, all of one length: dense embeddings. A gap gives zeros."""

    name: str
    width: int

    @classmethod
    def fit(cls, table: Table, name: str) -> Self:
        lengths = pc.unique(pc.list_value_length(table.column(name)).drop_null()).to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            raise ValueError(
                f"{table.where(name)} has lists of different lengths or none at all; an embedding "
                "has as many numbers for every node"
            )
        return cls(name, int(lengths[0]))

    def read(self, inputs: Inputs) -> np.ndarray:
        table, column = inputs.table, inputs.table.column(self.name)
        if not is_list(column.type):
            raise ValueError(f"{table.where(self.name)} holds {column.type}, not lists of numbers")
        lengths = pc.list_value_length(column)
        if pc.any(pc.not_equal(lengths, self.width)).as_py():
            row = pc.index(pc.not_equal(lengths, self.width), True).as_py() + 1
            raise ValueError(
                f"{table.where(self.name)} has a list of another length than {self.width} "
                f"in row {row}"
            )
        values = pc.list_flatten(column)
        flat = values.to_numpy(zero_copy_only=False)
        if values.null_count or not in_range(flat).all():
            raise ValueError(
                f"{table.where(self.name)} has a gap, NaN, infinity or far too large number in a "
                "list"
            )
        dtype = np.float32 if flat.dtype.itemsize < 8 and flat.dtype.kind == "f" else np.float64
        matrix = np.zeros((len(table), self.width), dtype)
        matrix[pc.is_valid(column).to_numpy(zero_copy_only=False)] = flat.reshape(-1, self.width)
        return matrix

    def columns(self) -> list[str]:
        return [self.name]

    def describe(self) -> str:
        return f"embedding {self.name!r} ({amount(self.width, 'number')})"


def is_list(kind: pa.DataType) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(is_a(kind) for is_a in lists):
        return False
    inner = kind.value_type
    return pa.types.is_floating(inner) or pa.types.is_integer(inner)


@dataclass(frozen=True)
class DenseFile(Reader):
    """The rows of a .npy file."""

    width: int

    def read(self, inputs: Inputs) -> Any:
        return _given(inputs.npy, self.width, "a dense matrix", "--features-npy")

    def describe(self) -> str:
        return f"dense matrix ({amount(self.width, 'column')})"


@dataclass(frozen=True)
class SparseFile(Reader):
    """The rows of a .npz file."""

    width: int

    def read(self, inputs: Inputs) -> Any:
        return _given(inputs.npz, self.width, "a sparse matrix", "--features-npz")

    def describe(self) -> str:
        return f"sparse matrix ({amount(self.width, 'column')})"


def _given(matrix: Any, width: int, what: str, option: str) -> Any:
    in_python = option.strip("-").replace("-", "_")
    if matrix is None:
        raise ValueError(
            f"the model was fitted with {what}; give one for these nodes too, with {option} "
            f"(in Python {in_python}=)"
        )
    if matrix.shape[1] != width:
        raise ValueError(
            f"{option} (in Python {in_python}=) has {amount(matrix.shape[1], 'column')}; the model "
            f"was fitted with {width}"
        )
    return matrix
