"""What is kept from one question to the next, within a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock

__all__ = ["ArrayCache"]


class ArrayCache:
    """Arrays worth keeping, the most recently used up to a budget in bytes."""

    def __init__(self, budget: int):
        self.budget = budget
        self.n_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable) -> object | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Hashable, value: object, n_bytes: int) -> None:
        with self._lock:
            self.n_bytes -= self._entries.pop(key, (None, 0))[1]
            if n_bytes > self.budget:
                return
            while self.n_bytes + n_bytes > self.budget:
                self.n_bytes -= self._entries.popitem(last=False)[1][1]
            self._entries[key] = value, n_bytes
            self.n_bytes += n_bytes
