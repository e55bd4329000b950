"""Features in a table of their own, joined to the nodes by id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from nodegp.io.format import Format, Names
from nodegp.io.ids import TEXT, Index, examples, ids_of
from nodegp.io.tables import TableFile
from nodegp.io.unknown import other_spelling, refuse_first_row

__all__ = ["with_features"]


def with_features(nodes: TableFile, features: TableFile, id_name: str) -> TableFile:
    """The nodes' table with the columns of another beside its own, rows matched by id: in the
    column of the same name there, or else in the first."""
    format_ = _Keyed(nodes, features, (id_name, features.find_id(None, id_name)))
    return TableFile(nodes.path, format_, *format_.columns(nodes.path))


@dataclass(frozen=True, eq=False)
class _Keyed(Format):
    """Two tables with a column of ids each; where the second has no row there are gaps."""

    nodes: TableFile
    features: TableFile
    ids: tuple[str, str]

    @property
    def is_text(self) -> bool:  # type: ignore[override]
        return self.nodes.is_text

    @property
    def has_header_line(self) -> bool:  # type: ignore[override]
        return self.nodes.format.has_header_line

    def columns(self, path: Path) -> tuple[tuple[str, ...], pa.Schema | None]:
        others = [name for name in self.features.names if name != self.ids[1]]
        twice = [name for name in others if name in self.nodes.names]
        if twice:
            raise ValueError(
                f"both {path} and {self.features.path} have a column {twice[0]!r}; rename one"
            )
        names, parts = (*self.nodes.names, *others), (self.nodes.schema, self.features.schema)
        if parts[0] is None or parts[1] is None:
            return names, None
        return names, pa.unify_schemas([parts[0], pa.schema([parts[1].field(n) for n in others])])

    def read(self, path: Path, columns: Names, text: Names, names: Names | None) -> pa.Table:
        tables, indices = [], []
        own = [name for name in columns if name in self.nodes.names]
        others = [name for name in columns if name not in self.nodes.names]
        for file, id_name, wanted in zip(
            (self.nodes, self.features), self.ids, (own, others), strict=True
        ):
            table = file.read([id_name, *wanted], text=[id_name, *(t for t in text if t in wanted)])
            indices.append(Index(ids_of(table, id_name)))
            tables.append(table)
        refuse_first_row(self.features, self.ids[1], indices[0])
        indices[1].require_different(tables[1].where(self.ids[1]))
        places = indices[1].find(indices[0].names)
        is_lost = places < 0
        if 2 * np.count_nonzero(is_lost) > len(places):
            lost = indices[0].names.filter(pa.array(is_lost))
            raise ValueError(
                f"{len(lost):,} of {len(places):,} nodes of {path} have no row in "
                f"{self.features.path}: {examples(lost.to_pylist())}; its ids must be those "
                f"of the nodes. {other_spelling(indices[1], lost.cast(TEXT))}".rstrip()
            )
        rows = tables[1].data.take(pa.array(places, mask=is_lost))
        parts = {n: tables[0].column(n) for n in own} | {n: rows.column(n) for n in others}
        return pa.table({name: parts[name] for name in columns})
