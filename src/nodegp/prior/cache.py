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
            self._entries.pop(key, None)
            if n_bytes > self.budget:
                return
            while sum(size for _, size in self._entries.values()) + n_bytes > self.budget:
                self._entries.popitem(last=False)
            self._entries[key] = value, n_bytes

    @property
    def n_bytes(self) -> int:
        return sum(size for _, size in self._entries.values())
