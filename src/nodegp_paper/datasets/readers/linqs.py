"""The LINQS citation data: papers with their words and class, and who cites whom.

A line of ``.content`` is an id, one number per word and a class; a line of ``.cites`` is two ids.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nodegp.datasets import Dataset
from nodegp.graph import Graph
from nodegp_paper.datasets.readers.classes import class_positions

__all__ = ["read_linqs"]


def read_linqs(path: Path) -> Dataset:
    """The pair of files that this one belongs to.

    Citations of papers that ``.content`` does not have are left out with a warning: Citeseer as
    published has some.
    """
    content, cites = path.with_suffix(".content"), path.with_suffix(".cites")
    for file in (content, cites):
        if not file.is_file():
            raise FileNotFoundError(f"{str(path)!r} needs {file.name!r} beside it.")
    number, features, labels = _papers(content)
    y, class_names = class_positions(labels)
    sources, targets = _citations(cites, number)
    adjacency = sp.coo_array(
        (np.ones(len(sources)), (sources, targets)), shape=(len(number), len(number))
    )
    ids = np.array(list(number))
    if all(name.isdigit() and name == str(int(name)) and len(name) < 19 for name in number):
        ids = ids.astype(np.int64)
    return Dataset(content.stem, Graph(adjacency, features, ids), y, {}, class_names)


def _papers(file: Path) -> tuple[dict[str, int], sp.csr_array, list[str]]:
    """Number of each id, the words as a matrix, the classes."""
    number: dict[str, int] = {}
    labels, indices, values, ends = [], [], [], [0]
    width = None
    for line, fields in _lines(file):
        name, label = fields[0], fields[-1]
        width = len(fields) if width is None else width
        if len(fields) != width or width < 2:
            raise ValueError(
                f"{str(file)!r}, line {line}: {len(fields)} fields, but an id, {max(width - 2, 0)} "
                "words and a class are expected"
            )
        if name in number:
            raise ValueError(f"{str(file)!r}, line {line}: the id {name!r} stands there again")
        try:
            words = np.array(fields[1:-1], dtype=np.float64)
        except ValueError:
            words = np.array([np.nan])
        if not np.isfinite(words).all():
            raise ValueError(
                f"{str(file)!r}, line {line}: between the id and the class must be numbers only"
            )
        number[name] = len(number)
        labels.append(label)
        present = np.flatnonzero(words)
        indices.append(present)
        values.append(words[present])
        ends.append(ends[-1] + len(present))
    if width is None:
        raise ValueError(f"{str(file)!r} is empty; every paper needs a line")
    parts = (np.concatenate(values), np.concatenate(indices), np.array(ends))
    return number, sp.csr_array(parts, shape=(len(number), width - 2)), labels


def _citations(file: Path, number: dict[str, int]) -> tuple[list[int], list[int]]:
    sources, targets, unknown = [], [], []
    for line, fields in _lines(file):
        if len(fields) != 2:
            raise ValueError(
                f"{str(file)!r}, line {line}: {len(fields)} fields, but two ids are expected"
            )
        lost = [name for name in fields if name not in number]
        unknown += lost
        if not lost:
            sources.append(number[fields[0]])
            targets.append(number[fields[1]])
    if unknown:
        first = list(dict.fromkeys(unknown))
        warnings.warn(
            f"{str(file)!r} names {len(first)} ids that have no line in .content, first: "
            f"{first[:5]}; those citations are left out",
            stacklevel=4,
        )
    return sources, targets


def _lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Fields of each line that has any, with its number from 1."""
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for line, text in enumerate(lines, start=1):
                if text.strip():
                    # Ids of some files have spaces in them, so a tab parts where there is one.
                    yield line, text.strip("\r\n").split("\t") if "\t" in text else text.split()
    except UnicodeDecodeError:
        raise ValueError(f"{str(file)!r} is not a text file (in UTF-8)") from None
