"""The routes of the labelling page: a few questions, one command, and news.

Everything that touches the session is done by one thread, one thing after the other; what takes
long never keeps the server from answering "still there".
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import resources
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from nodegp.label.commands import Refused
from nodegp.label.export import FORMATS, exported
from nodegp.label.journal import JournalError
from nodegp.label.session import Session
from nodegp.web.news import News

__all__ = ["LabelServer"]

T = TypeVar("T")
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SENT = 0.003  # seconds after which a reply is on its way
_IDLE = 0.4  # seconds without a command, after which there is time for other things
_FOLLOW = 1.0  # seconds between two looks at a journal that another server writes
_log = logging.getLogger(__name__)


class LabelServer:
    """A session, for a browser. ``app`` is the application without the gate before it."""

    def __init__(self, session: Session, guideline: str = "", name: str = ""):
        self.session, self._guideline, self._name = session, guideline, name
        self._news = News()
        self._idle: asyncio.Task[None] | None = None
        self._files = _static_files()
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/static/{name}", self._static),
                Route("/api/standing", self._standing),
                Route("/api/do", self._do, methods=["POST"]),
                Route("/api/node/{number:int}", self._node),
                Route("/api/thoughts/{number:int}", self._thoughts),
                Route("/api/guideline", self._guide),
                Route("/api/export/{format}", self._export),
                Route("/api/news", self._stream),
            ],
            exception_handlers={
                HTTPException: _in_words,
                Refused: partial(_sentence, 409),
                JournalError: partial(_sentence, 503),
                Exception: _failed,
            },
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        following = None
        if self.session.is_read_only:
            following = asyncio.create_task(self._follow())
        yield
        for task in (following, self._idle):
            if task is not None:
                task.cancel()
        self.session.close()

    def say_no_more(self) -> None:
        """End what pages listen to."""
        self._news.end()

    async def _run(self, function: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self.session.worker, function, *args
        )

    # --- files ----------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        return Response(self._files["index.html"], media_type=_KINDS[".html"])

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            raise HTTPException(404, "there is no such file")
        kind = _KINDS["." + name.rpartition(".")[2]]
        return Response(self._files[name], media_type=kind)

    # --- questions ------------------------------------------------------------------------------

    async def _standing(self, request: Request) -> Response:
        standing = await self._run(self.session.standing)
        return JSONResponse(standing | {"name": self._name, "guideline": bool(self._guideline)})

    async def _node(self, request: Request) -> Response:
        return JSONResponse(await self._run(self.session.look, self._number(request)))

    async def _thoughts(self, request: Request) -> Response:
        return JSONResponse(await self._run(self.session.thoughts, self._number(request)))

    def _number(self, request: Request) -> int:
        number: int = request.path_params["number"]
        if number >= self.session.subject.graph.n_nodes:
            raise HTTPException(404, f"there is no node number {number}")
        return number

    async def _guide(self, request: Request) -> Response:
        return JSONResponse({"markdown": self._guideline})

    async def _export(self, request: Request) -> Response:
        format = request.path_params["format"]
        if format not in FORMATS:
            raise HTTPException(404, f"answers are written as {', '.join(FORMATS)}")
        content = await self._run(exported, self.session, format)
        headers = {"Content-Disposition": f'attachment; filename="labels.{format}"'}
        return Response(content, media_type=FORMATS[format], headers=headers)

    # --- commands -------------------------------------------------------------------------------

    async def _do(self, request: Request) -> Response:
        try:
            command = json.loads(await request.body())
            id, kind, data = command["id"], command["kind"], command.get("data", {})
            json.dumps(command, ensure_ascii=False).encode()  # what cannot be kept is no command
        except (ValueError, TypeError, KeyError, RecursionError):
            raise HTTPException(400, "a command is JSON with id, kind and data") from None
        is_sound = isinstance(id, str) and 8 <= len(id) <= 100 and isinstance(kind, str)
        if not is_sound or not isinstance(data, dict):
            raise HTTPException(400, "a command is JSON with id, kind and data")
        if command.get("journal", self.session.journal.name) != self.session.journal.name:
            raise HTTPException(
                409, "this was said to another journal, and is not kept in this one"
            )
        if self._idle is not None:
            self._idle.cancel()
        reply = await self._run(self.session.do, id, kind, data)
        self._news.tell({"seq": reply["seq"], "event": id})
        self._idle = asyncio.create_task(self._when_idle())
        return JSONResponse(reply)

    async def _when_idle(self) -> None:
        """What can wait until the page is drawn, or until the expert is thinking."""
        try:
            await asyncio.sleep(_SENT)
            await self._anticipated()
            await asyncio.sleep(_IDLE)
            await self._run(self.session.note)
            await self._run(self.session.ahead)
        except Exception:  # none of it matters to what was said
            _log.exception("working ahead failed")

    async def _anticipated(self) -> None:
        try:
            await self._run(self.session.anticipate)
        except Exception:  # notes and likely answers do not need it
            _log.exception("what the next label takes was not worked out before it")

    # --- news -----------------------------------------------------------------------------------

    async def _stream(self, request: Request) -> Response:
        return StreamingResponse(self._news.listen(self._now), media_type="text/event-stream")

    async def _follow(self) -> None:
        """See what another server adds to the journal."""
        while True:
            await asyncio.sleep(_FOLLOW)
            with suppress(JournalError):
                if await self._run(self.session.follow):
                    self._news.tell(self._now())

    def _now(self) -> dict[str, Any]:
        return {"seq": len(self.session.journal.events), "event": ""}


def _static_files() -> dict[str, bytes]:
    """What the page is made of, by name; nothing else can be asked for."""
    folder = resources.files("nodegp.web") / "static"
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


async def _in_words(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)


async def _sentence(status: int, request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status)


async def _failed(request: Request, error: Exception) -> Response:
    _log.exception("a request failed", exc_info=error)
    text = f"the server could not do this: {type(error).__name__}; its terminal says more"
    return JSONResponse({"error": text}, 500)
