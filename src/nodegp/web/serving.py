"""Starting the server: a port of this machine's own, a link, and a browser to open it."""

from __future__ import annotations

import gc
import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from nodegp.app.frontend import OptionError
from nodegp.label.session import Session
from nodegp.web.security import Guard, private_key
from nodegp.web.server import LabelServer

__all__ = ["PORT", "PageServer", "listening_socket", "serve"]

PORT = 8719  # the usual one; a free one if it is taken
_HOST = "127.0.0.1"
_TURN = 0.0005  # seconds


class PageServer(uvicorn.Server):
    """A server of one session, on a socket; ``link`` lets one browser in, and ``when_ready`` is
    called once there is somebody to answer."""

    def __init__(self, session: Session, place: socket.socket, guideline: str = "", name: str = ""):
        port, token = place.getsockname()[1], secrets.token_urlsafe(24)
        self.when_ready: Callable[[], object] = lambda: None
        self.link = f"http://{_HOST}:{port}/?token={token}"
        self._place, self._label = place, LabelServer(session, guideline, name)
        app = Guard(self._label.app, port, token, private_key(session.journal.path))
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="on",
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=1,
            )
        )

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        # What is there by now stays, libraries mostly: looking through all of it for garbage now
        # and then would take a tenth of a second from an answer.
        gc.collect()
        gc.freeze()
        # A request is not held up while the model works: Python's own turns are of 5 ms.
        turns = sys.getswitchinterval()
        sys.setswitchinterval(_TURN)
        try:
            super().run(sockets or [self._place])
        finally:
            sys.setswitchinterval(turns)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._label.say_no_more()  # else pages that listen would be waited for
        await super().shutdown(sockets)


def serve(
    session: Session,
    *,
    port: int | None = None,
    open_browser: bool = True,
    guideline: str = "",
    name: str = "",
    say: Callable[[str], None] = print,
) -> None:
    """Serve a session until it is stopped. ``say`` is told the link."""
    try:
        with listening_socket(port) as place:
            server = PageServer(session, place, guideline, name)

            def when_ready() -> None:
                say(server.link)
                if open_browser:  # which may take its time
                    threading.Thread(target=webbrowser.open, args=[server.link]).start()

            server.when_ready = when_ready
            with suppress(KeyboardInterrupt):  # it was stopped, as is usual
                server.run()
    finally:
        session.close()


def listening_socket(port: int | None) -> socket.socket:
    """A listening socket that only this machine can reach."""
    wished = [PORT, 0] if port is None else [port]
    for number in wished:
        # By its name: else asyncio does not see that it is TCP, and leaves on what holds back the
        # body of a reply until the browser has confirmed its head, up to 40 ms later.
        place = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((_HOST, number))
        except (OSError, OverflowError):
            place.close()
            continue
        place.listen(100)
        return place
    raise OptionError(f"`port`: {port} is taken or not allowed; name another", "port")
