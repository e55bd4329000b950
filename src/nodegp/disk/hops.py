"""Filtered columns F X of a stored graph, hop by hop: tasks over parts that leave files behind.

It is Clenshaw's recursion of :mod:`nodegp.propagation`, level by level from the last term to the
first. At each the columns of all nodes as they were one level before are in memory, N x c; whatever
else it takes is read part by part, and so is the answer written. A part's file that is there is
right, so work that was stopped goes on where it was, and nothing but files has to reach a worker.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from nodegp.disk.graph import StoreAddress, StoredMatrix
from nodegp.disk.operator import ScaledParts
from nodegp.disk.work import is_whole, read_tensors, write_tensors
from nodegp.disk.workers import Workers
from nodegp.features import FeatureRows
from nodegp.linalg import sparse_product
from nodegp.preprocessing import Preprocessor
from nodegp.store import StoredGraph

__all__ = ["ColumnJob", "Recursion", "forget", "run_job"]


@dataclass(frozen=True)
class Recursion:
    """A filter in numbers: sum_k terms[k] T_k(S), on values over (1 + degree)^discount. With
    ``own`` it is the mean of that and of own times the values, as Eq. 15 weighs them."""

    terms: tuple[float, ...]
    self_loops: bool
    discount: float = 0.0
    own: float | None = None

    @property
    def order(self) -> int:
        return len(self.terms) - 1


@dataclass(frozen=True, eq=False)
class ColumnJob:
    """Some columns of the features of a stored graph, to be filtered; goes to any process."""

    address: StoreAddress
    preprocessor: Preprocessor
    recursion: Recursion
    folder: Path
    start: int
    stop: int
    dtype: torch.dtype

    @property
    def store_path(self) -> Path:
        return self.address.store_path

    @property
    def store(self) -> StoredGraph:
        return self.address.open()

    @property
    def parts(self) -> ScaledParts:
        return ScaledParts(self.store, self.recursion.self_loops, self.dtype)

    def source(self, part: int) -> Path:
        """Where the values of a part are before they spread."""
        return self.folder / f"x.{part:05d}"

    def level(self, level: int, part: int) -> Path:
        """Where a part is at a level; at the lowest it is the answer."""
        return self.folder / (f"h{level:04d}.{part:05d}" if level else f"result.{part:05d}")


# --- tasks --------------------------------------------------------------------------------------


def make_source(job: ColumnJob, part: int) -> None:
    """Preprocess some columns of a part, and divide them by the power of degrees."""
    rows = job.store.rows_of(part)
    in_double = job.dtype == torch.float64
    features = FeatureRows(StoredMatrix(job.store), job.preprocessor, in_double=in_double)
    chosen = features.select(np.arange(rows.start, rows.stop))
    kind = np.float64 if in_double else np.float32
    values = np.ascontiguousarray(chosen.columns(slice(job.start, job.stop)), dtype=kind)
    x = torch.from_numpy(values)
    if job.recursion.discount != 0:
        discounts = (1.0 + job.store.degrees[rows]) ** -job.recursion.discount
        x = x * torch.from_numpy(discounts).to(x.dtype)[:, None]
    write_tensors(job.source(part), x)


def make_level(job: ColumnJob, level: int, part: int) -> None:
    """One hop of a part: times S what was one level before, less two levels before, plus x."""
    recursion, rows = job.recursion, job.store.rows_of(part)
    (x,) = read_tensors(job.source(part))
    if recursion.order == 0:
        following = recursion.terms[0] * x
    else:
        current = _current(job, level + 1)
        times = 1.0 if level == 0 else 2.0
        own = job.parts.rows(part)
        is_first = level + 2 > recursion.order
        before = None if is_first else _at(job, level + 2, part, x)
        following = sparse_product(own, current, times, before)
        following.add_(x, alpha=recursion.terms[level])
    if level == 0 and recursion.own is not None:
        passed = torch.from_numpy(1.0 / (1.0 + job.store.degrees[rows])).to(x.dtype)[:, None]
        following = following * passed + x * (recursion.own * (1.0 - passed))  # Eq. 15
    write_tensors(job.level(level, part), following, is_to_stay=level == 0)


def check_file(path: Path) -> None:
    """Remove a file that is not as it was written."""
    if not is_whole(path, verify=True):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _at(job: ColumnJob, level: int, part: int, x: Tensor | None = None) -> Tensor:
    """A part at a level; the uppermost is the last term alone, which needs no file."""
    if level < job.recursion.order:
        return read_tensors(job.level(level, part))[0]
    source = read_tensors(job.source(part))[0] if x is None else x
    return job.recursion.terms[-1] * source


# What is in memory for all nodes: one level of one job at a time, whoever asks in this process.
_level: dict[str, tuple[str, int, Tensor]] = {}
_lock = Lock()


def _current(job: ColumnJob, level: int) -> Tensor:
    folder = str(job.folder)
    with _lock:
        held = _level.get("held")
        if held is not None and held[:2] == (folder, level):
            return held[2]
        # Gone before the next is made. Whoever still works with it has it for as long as that.
        _level.clear()
        del held
        whole = torch.empty(job.store.n_nodes, job.stop - job.start, dtype=job.dtype)
        for part in range(job.store.n_parts):
            own = whole[job.store.rows_of(part)]
            if level < job.recursion.order:
                read_tensors(job.level(level, part), into=own)
            else:
                own.copy_(_at(job, level, part))
        _level["held"] = folder, level, whole
        return whole


def forget() -> None:
    """Give back what is in memory for all nodes."""
    with _lock:
        _level.clear()


# --- the order of tasks ---------------------------------------------------------------------------


def run_job(
    job: ColumnJob, workers: Workers, place: int | None, hop: Callable[[], None]
) -> tuple[int, int]:
    """Filter the columns of a job; what is there of it already is taken over. Returns how many
    times a part's edges were read, and how many hops were run; ``hop`` is called after each."""
    job.folder.mkdir(parents=True, exist_ok=True)
    parts = range(job.store.n_parts)
    found = _found(job.folder)
    if all(job.level(0, part).name in found for part in parts):
        _clear(job, keep=("result",))
        return 0, 0
    if found:  # of an earlier run, which may have been cut off with its machine
        workers.run(check_file, [(job.folder / name,) for name in sorted(found)], place)
        found = _found(job.folder)
    missing = [(job, part) for part in parts if job.source(part).name not in found]
    workers.run(make_source, missing, place)
    order = job.recursion.order
    first = _next_level(job, found)
    n_read = n_hops = 0
    for level in range(first, -1, -1):
        names = _found(job.folder)
        todo = [(job, level, part) for part in parts if job.level(level, part).name not in names]
        workers.run(make_level, todo, place)
        n_read += len(todo) if order else 0
        n_hops += bool(todo) and order > 0
        hop()
        for part in parts:
            if 0 < level + 2 < order:
                job.level(level + 2, part).unlink(missing_ok=True)
    workers.run(forget, [()], place)
    _clear(job, keep=("result",))
    return n_read, n_hops


def _next_level(job: ColumnJob, found: set[str]) -> int:
    """The level to work on, given what is there."""
    parts, order = range(job.store.n_parts), job.recursion.order
    for level in range(order):
        if all(job.level(level, part).name in found for part in parts):
            is_enough = level + 1 >= order or all(
                job.level(level + 1, part).name in found for part in parts
            )
            if is_enough:
                return level - 1
    return max(order - 1, 0)


def _found(folder: Path) -> set[str]:
    """The files of a job that are there, by name."""
    return {name for name in os.listdir(folder) if not name.startswith(".")}


def _clear(job: ColumnJob, keep: tuple[str, ...]) -> None:
    for path in job.folder.iterdir():
        if not path.name.startswith(keep):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
