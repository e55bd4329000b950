"""Starting the server: a port of this machine's own, a link, and a browser to open it."""

from __future__ import annotations

import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable

import uvicorn

from nodegp.app.frontend import OptionError
from nodegp.label.session import Session
from nodegp.web.security import Guard, private_key
from nodegp.web.server import LabelServer

__all__ = ["PORT", "serve"]

PORT = 8719  # the usual one; a free one if it is taken
_HOST = "127.0.0.1"


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
    place = _socket(port)
    try:
        number, token = place.getsockname()[1], secrets.token_urlsafe(24)
        server = LabelServer(session, guideline, name)
        guarded = Guard(server.app, number, token, private_key(session.journal.path))
        link = f"http://{_HOST}:{number}/?token={token}"
        say(link)
        if open_browser:
            threading.Timer(0.3, webbrowser.open, [link]).start()
        config = uvicorn.Config(
            guarded,
            lifespan="on",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[place])
    finally:
        place.close()
        session.close()


def _socket(port: int | None) -> socket.socket:
    """A listening socket that only this machine can reach."""
    wished = [PORT, 0] if port is None else [port]
    for number in wished:
        place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((_HOST, number))
        except (OSError, OverflowError):
            place.close()
            continue
        place.listen(100)
        return place
    raise OptionError(f"`port`: {port} is taken or not allowed; name another", "port")
