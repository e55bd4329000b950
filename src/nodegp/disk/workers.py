"""Who does the work on a stored graph, and with how much memory: threads of this process, or the
workers of a Dask cluster.

Tasks are about one part each, and leave what they make in files: that is all there is to send.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch

__all__ = ["SHARE_OF_COLUMNS", "Threads", "Workers", "using", "workers"]

MEMORY = 4 << 30
# Of the memory, what columns of all nodes may take: the rest is for parts, degrees and Python.
SHARE_OF_COLUMNS = 0.6


class Workers(Protocol):
    """Whoever runs tasks."""

    memory: int  # bytes, for all together

    @property
    def n_places(self) -> int:
        """How many processes there are, each with memory of its own."""

    @property
    def n_threads(self) -> int:
        """How many tasks run at a time, over all processes."""

    def run(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        place: int | None = None,
    ) -> None:
        """Call a function with the arguments of each task and wait for all. ``place`` is the
        process that should rather do it, by number."""

    def run_apart(self, function: Callable[[Any, int | None], None], items: Sequence[Any]) -> None:
        """Call a function in this process for each item, which asks for tasks itself; several at a
        time if there are several places."""


class Threads:
    """Threads of this process."""

    n_places = 1

    def __init__(self, n_threads: int | None = None, memory: int = MEMORY):
        self.n_threads = n_threads or _n_cores()
        self.memory = memory

    def run(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        place: int | None = None,
    ) -> None:
        if self.n_threads == 1 or len(tasks) == 1:
            with _one_torch_thread():
                for task in tasks:
                    function(*task)
            return
        with _one_torch_thread():
            pool = ThreadPoolExecutor(
                self.n_threads, initializer=torch.set_num_threads, initargs=(1,)
            )
            try:
                for future in [pool.submit(function, *task) for task in tasks]:
                    future.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def run_apart(self, function: Callable[[Any, int | None], None], items: Sequence[Any]) -> None:
        for item in items:
            function(item, None)


def _n_cores() -> int:
    """That this process may use, where the system says so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_workers: ContextVar[Workers | None] = ContextVar("workers", default=None)


def workers() -> Workers:
    """Who works now: threads, unless :func:`using` says otherwise."""
    return _workers.get() or Threads()


@contextmanager
def using(chosen: Any = None, memory: int = MEMORY) -> Iterator[Workers]:
    """Choose who works on stored graphs, and the memory limit.

    Parameters
    ----------
    chosen : number of threads, a ``dask.distributed.Client``, or an earlier result of this function
    memory : limit in bytes, over all processes together
    """
    if chosen is None or isinstance(chosen, int):
        chosen = Threads(chosen, memory)
    elif not hasattr(chosen, "run_apart"):
        from nodegp.disk.cluster import Cluster

        chosen = Cluster(chosen, memory)
    token = _workers.set(chosen)
    try:
        yield chosen
    finally:
        _workers.reset(token)


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
