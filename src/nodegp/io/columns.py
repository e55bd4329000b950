"""Which columns of a table are features, and what kind each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from nodegp.io.numeric import is_number
from nodegp.io.readers import is_list
from nodegp.io.tables import TableFile
from nodegp.io.textual import is_text


@dataclass(frozen=True)
class Chosen:
    """Columns by kind, and those left out with the reason."""

    numbers: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def columns(self) -> list[str]:
        return [*self.numbers, *self.categories, *self.texts, *self.lists]


@dataclass(frozen=True)
class Wanted:
    """Columns that the user named; ``features`` is None if it is for us to choose."""

    features: list[str] | None
    categories: list[str]
    texts: list[str]

    @classmethod
    def of(
        cls,
        file: TableFile,
        features: Sequence[str | int] | None,
        categorical: Iterable[str | int],
        text: Iterable[str | int],
        taken: dict[str, str],
    ) -> Wanted:
        """The names of these columns; ``taken`` are columns with another use."""
        wanted = cls(
            None if features is None else [file.find(name, "features") for name in features],
            [file.find(name, "categorical features") for name in categorical],
            [file.find(name, "text") for name in text],
        )
        uses = [(name, "a feature") for name in wanted.features or []]
        uses += [(name, "categorical") for name in wanted.categories]
        uses += [(name, "text") for name in wanted.texts]
        seen = dict(taken)
        for name, use in uses:
            if name in seen and {use, seen[name]} != {"a feature", "categorical"}:
                raise ValueError(
                    f"column {name!r} of {file.path} is named twice, as {seen[name]} and as {use}"
                )
            seen[name] = use
        return wanted

    def choose(self, schema: pa.Schema, path: str, taken: Iterable[str]) -> Chosen:
        """Sort the columns of a table by kind."""
        chosen = Chosen(categories=list(self.categories), texts=list(self.texts))
        placed = {*taken, *self.categories, *self.texts}
        names = schema.names if self.features is None else self.features
        kinds = dict(zip(schema.names, schema.types, strict=True))
        for name in (name for name in names if name not in placed):
            kind = kinds[name]
            if is_number(kind):
                chosen.numbers.append(name)
            elif is_list(kind):
                chosen.lists.append(name)
            elif pa.types.is_null(kind):
                chosen.left_out[name] = "empty"
            elif self.features is None:
                chosen.left_out[name] = "text" if is_text(kind) else str(kind)
            elif is_text(kind):
                chosen.categories.append(name)
            else:
                raise ValueError(
                    f"column {name!r} of {path} holds {kind}, which cannot be a feature; "
                    "turn it into numbers or text first"
                )
        return chosen
