"""Work on stored graphs by the workers of a Dask cluster.

Tasks are futures over parts. Blocks of columns go to different workers first, since they have
nothing to say to each other; a worker that is lost costs its tasks, which others do again. Workers
read and write the folder of the graph themselves, so they must see it under the same path.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any

from nodegp.extras import to_install

__all__ = ["Cluster", "connected"]

_PATIENCE = 20  # seconds that workers may take to start
_RETRIES = 3  # of a task that failed; one whose worker was lost is another matter


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of a cluster: ``local:2`` starts two processes here, which end with it."""
    distributed = _distributed()
    name, _, count = address.partition(":")
    if name == "local":
        if not count.isdigit() or int(count) < 1:
            raise ValueError(
                f"a local cluster is named with its processes: local:2, got {address!r}"
            )
        # Its own limits count pages of files that happen to be in memory, and kill for them.
        cluster = distributed.LocalCluster(
            n_workers=int(count),
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=40,
        )
        with cluster, distributed.Client(cluster) as client:
            yield client
        return
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError, TimeoutError) as error:
        raise ValueError(
            f"no Dask scheduler answers at {address} ({error}); start one with `dask scheduler`, "
            "or use local:2"
        ) from None
    with client:
        yield client


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(f"a cluster needs dask and distributed: {to_install('dask')}") from error
    return distributed


class Cluster:
    """The workers of a Dask client."""

    def __init__(self, client: Any, memory: int):
        self.client, self.memory = client, memory
        self._seen: set[Path] = set()

    @property
    def n_places(self) -> int:
        return max(len(self._workers()), 1)

    @property
    def n_threads(self) -> int:
        return max(sum(self.client.nthreads().values()), 1)

    def _workers(self) -> list[str]:
        return sorted(self.client.scheduler_info(n_workers=-1)["workers"])

    def _awaited(self) -> list[str]:
        """Workers that are only starting, or starting again after they were lost."""
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=_PATIENCE)
        return self._workers()

    def run(
        self,
        function: Callable[..., Any],
        tasks: Sequence[tuple[Any, ...]],
        place: int | None = None,
    ) -> None:
        if not tasks:
            return
        self._check_folders(tasks)
        known = self._workers() or self._awaited()
        if not known:
            raise ValueError("the Dask cluster has no workers; start some with `dask worker`")
        chosen: dict[str, Any] = {"pure": False, "retries": _RETRIES}
        if place is not None:
            chosen |= {"workers": [known[place % len(known)]], "allow_other_workers": True}
        futures = [self.client.submit(function, *task, **chosen) for task in tasks]
        try:
            self.client.gather(futures)
        finally:
            self.client.cancel(futures)

    def run_apart(self, function: Callable[[Any, int | None], None], items: Sequence[Any]) -> None:
        n_places = self.n_places
        if len(items) < n_places:  # too few for all: parts are shared out instead
            for item in items:
                function(item, None)
            return
        waiting = deque(items)

        def one_after_another(place: int) -> None:
            while True:
                try:
                    item = waiting.popleft()
                except IndexError:
                    return
                function(item, place)

        with ThreadPoolExecutor(n_places) as pool:
            futures = [
                pool.submit(copy_context().run, one_after_another, place)
                for place in range(n_places)
            ]
            for future in futures:
                future.result()

    def _check_folders(self, tasks: Sequence[tuple[Any, ...]]) -> None:
        """Say it in words where a worker does not see the graph that a task is about, or what is
        written beside it: a file that is there already shows whether it does."""
        stores = {item.store_path for item in tasks[0] if hasattr(item, "store_path")}
        needed = {path / "manifest.json": "store" for path in sorted(stores - self._seen)}
        for item in tasks[0]:
            if hasattr(item, "shared_file"):
                needed[item.shared_file] = "folder"
        for path, what in needed.items():
            answers = self.client.run(sees, str(path.absolute()))
            blind = [name for name, is_seen in answers.items() if not is_seen]
            if blind:
                raise ValueError(
                    f"{len(blind)} of {len(answers)} Dask workers, such as {blind[0]}, do not see "
                    f"{path.parent.absolute()}, or may not write there: put the {what} where all "
                    "machines have it under one path"
                )
        self._seen |= stores


def sees(path: str) -> bool:
    """Whether this process finds a file, and may write beside it."""
    return Path(path).is_file() and os.access(Path(path).parent, os.W_OK)
