"""Carries out specs in processes of their own and keeps every finished run.

Killed at any moment and started again it goes on where it was: finished runs are in the store,
and long optimisations leave checkpoints in the output folder.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Protocol

from nodegp_paper.experiments.plan import TASKS
from nodegp_paper.experiments.spec import Spec
from nodegp_paper.experiments.store import Record, Store
from nodegp_paper.experiments.task import Context
from nodegp_paper.experiments.worker import start_worker

__all__ = ["Progress", "run_all", "seconds_text", "versions"]

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Progress(Protocol):
    """Told what happens, as it happens."""

    def begin(self, n_runs: int, n_finished: int, seconds: float) -> None: ...

    def finished(self, record: Record, seconds_left: float) -> None: ...

    def failed(self, spec: Spec, error: str) -> None: ...


def run_all(
    specs: Sequence[Spec],
    folder: Path,
    progress: Progress,
    jobs: int = 1,
    data_dir: str | None = None,
    expected_seconds: Callable[[Spec], float] = lambda spec: 1.0,
) -> tuple[dict[str, Record], list[Spec]]:
    """Finish all specs; returns all records of the folder by key, and the specs that failed.

    Every run has a process with one thread, whatever ``jobs`` is, so that the numbers do not
    depend on it.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    store = Store(folder)
    records = store.records()
    requested = {spec.key: spec for spec in specs}
    estimate = _Estimate(records, expected_seconds)
    # Short runs first: whoever stops early has the most to look at.
    waiting = sorted(
        (spec for key, spec in requested.items() if key not in records), key=estimate.seconds
    )
    n_finished = len(requested) - len(waiting)
    progress.begin(len(requested), n_finished, estimate.total(waiting) / jobs)
    failed: list[Spec] = []
    if waiting:
        with store.writer() as writer, _workers(jobs) as pool:
            for record in records.values():  # of a process that was killed before it tidied up
                _checkpoint(folder, record.spec).unlink(missing_ok=True)
            contexts = {s.key: Context(data_dir, str(_checkpoint(folder, s))) for s in waiting}
            left = set(contexts)
            running = {pool.submit(_carry_out, s, contexts[s.key]): s for s in waiting}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    spec = running.pop(future)
                    left.discard(spec.key)
                    outcome = _outcome(future, spec)
                    if isinstance(outcome, str):
                        failed.append(spec)
                        progress.failed(spec, outcome)
                        continue
                    writer.add(outcome)
                    _checkpoint(folder, spec).unlink(missing_ok=True)
                    records[spec.key] = outcome
                    estimate.learn(outcome)
                    progress.finished(
                        outcome, estimate.total([requested[key] for key in left]) / jobs
                    )
    return records, failed


def _outcome(future: Future, spec: Spec) -> Record | str:
    try:
        return future.result()
    except BrokenProcessPool:
        raise ValueError(
            f"a worker process ended all at once, perhaps for want of memory, during or near "
            f"{spec.title!r}; the same command goes on from here, with fewer jobs if you like"
        ) from None


def _checkpoint(folder: Path, spec: Spec) -> Path:
    return folder / "checkpoints" / spec.key


def _carry_out(spec: Spec, context: Context) -> Record | str:
    """One run, in a worker process; an error comes back as text, not to end the others."""
    started = time.perf_counter()
    try:
        metrics = TASKS[spec.task].run(spec, context)
    except Exception:
        return traceback.format_exc()
    return Record(spec, metrics, time.perf_counter() - started, versions())


def versions() -> dict[str, str]:
    """Of what made the numbers."""
    from importlib.metadata import version

    packages = ("nodegp", "numpy", "scipy", "torch", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


class _Estimate:
    """How long runs take: as long as others of their kind did, or a first guess."""

    def __init__(self, records: Mapping[str, Record], guess: Callable[[Spec], float]):
        self._guess = guess
        self._seen: dict[tuple, list[float]] = {}
        for record in records.values():
            self.learn(record)

    def learn(self, record: Record) -> None:
        self._seen.setdefault(record.spec.kind, []).append(record.seconds)

    def seconds(self, spec: Spec) -> float:
        seen = self._seen.get(spec.kind)
        return median(seen) if seen else self._guess(spec)

    def total(self, specs: Sequence[Spec]) -> float:
        return sum(self.seconds(spec) for spec in specs)


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes with one thread each, that do not outlive this one."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=start_worker)
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        # Stopped by the user, or the disk is full: what is under way is lost, nothing else.
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def seconds_text(seconds: float) -> str:
    """A duration for people: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
