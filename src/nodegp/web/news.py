"""News for pages that are open: server-sent events, and a sign of life for those that wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

__all__ = ["News"]

_LIFE = 10.0  # seconds between two signs of life
_END = None


class News:
    """Tells everybody who listens."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[Any]] = set()

    def tell(self, news: dict[str, Any]) -> None:
        for queue in self._listeners:
            queue.put_nowait(news)

    def end(self) -> None:
        """There will be no more."""
        for queue in self._listeners:
            queue.put_nowait(_END)

    async def listen(self, standing: Callable[[], dict[str, Any]]) -> AsyncIterator[str]:
        """Lines of an event stream, until the end: first where things stand, since a page may have
        missed something after it was read and before it listened."""
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self._listeners.add(queue)
        try:
            yield f"retry: 1000\ndata: {json.dumps(standing())}\n\n"
            while True:
                try:
                    news = await asyncio.wait_for(queue.get(), _LIFE)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if news is _END:
                    return
                yield f"data: {json.dumps(news)}\n\n"
        finally:
            self._listeners.discard(queue)
