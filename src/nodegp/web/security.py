"""Who may speak to the server: nobody, but for the browser that was given the link.

One gate before every route, whatever routes there are: a request that it does not know is refused.
It checks the name that the server was called by (a page elsewhere can make its own name lead here),
where a request that changes something comes from, and the cookie that the link was exchanged for.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HEADERS", "MOST_BYTES", "Guard", "private_key"]

MOST_BYTES = 200_000  # of a command
_SAFE = ("GET", "HEAD")

# Everything the page uses comes from this server; nothing may show it in a frame, guess what a file
# is, learn its address, or keep a copy.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'; object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_ENTER = (
    "Open the link that `nodegp label` printed. It lets one browser in, once: if it has been "
    "used,\nstart the command again for a new one.\n"
)


class Guard:
    """The gate, around an application.

    Parameters
    ----------
    port : where the server is reached, on 127.0.0.1
    token : what the link has in it; good for one browser
    key : what cookies are made with; see :func:`private_key`
    """

    def __init__(self, app: ASGIApp, port: int, token: str, key: bytes):
        self._app, self._token = app, token
        self.cookie_name = f"nodegp-label-{port}"
        self._cookie = hmac.new(key, f"label {port}".encode(), hashlib.sha256).hexdigest()
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there is nothing here but pages and commands
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._refusal(scope)
        if answer is None:
            await self._app(scope, receive, send_guarded)
        else:
            await answer(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """What is said to a request that does not reach the application."""
        headers, method = Headers(scope=scope), scope["method"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return _refused(403, "This server answers at 127.0.0.1 only.\n")
        is_safe = method in _SAFE
        site = headers.get("sec-fetch-site")
        if site not in (None, "same-origin", "none") and not _is_visit(scope, headers):
            return _refused(403, "This came from another page.\n")
        if not is_safe and headers.getlist("origin") != [f"http://{hosts[0]}"]:
            return _refused(403, "This came from another page.\n")
        if not self._is_known(headers):
            return self._entry(scope) or _refused(401, _ENTER)
        if is_safe:
            # The link was opened again: it does no harm, and should not stay in the address.
            asked = scope["query_string"] and scope["path"] == "/"
            return RedirectResponse("/", 303) if asked else None
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return _refused(415, "Commands are JSON.\n")
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            return _refused(413, f"A command has at most {MOST_BYTES:,} bytes.\n")
        return None

    def _is_known(self, headers: Headers) -> bool:
        """Whether a request has the cookie that the link was exchanged for."""
        for header in headers.getlist("cookie"):
            try:
                cookie = SimpleCookie(header).get(self.cookie_name)
            except CookieError:
                continue
            if cookie is not None and hmac.compare_digest(cookie.value, self._cookie):
                return True
        return False

    def _entry(self, scope: Scope) -> Response | None:
        """The cookie, for the first that comes with the token."""
        if scope["method"] != "GET" or scope["path"] != "/" or not self._token:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return None
        self._token = ""
        entry = RedirectResponse("/", 303)
        entry.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="strict", path="/")
        return entry


def _is_visit(scope: Scope, headers: Headers) -> bool:
    """A link to the page that was clicked elsewhere: it shows the page, and nothing can be read."""
    is_page = scope["method"] == "GET" and scope["path"] == "/"
    return is_page and headers.get("sec-fetch-mode") == "navigate"


def _refused(status: int, text: str) -> Response:
    return PlainTextResponse(text, status)


def private_key(journal: Path) -> bytes:
    """What this user's cookies are made with for a journal: the same when the server is started
    again, so that a page that is open goes on. Kept where only the user may read."""
    home = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    folder = (Path(home) if home else Path.home() / ".local" / "state") / "nodegp"
    place = folder / "label.key"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(32))
        key: Any = place.read_bytes()
    except (OSError, RuntimeError):
        key = b""
    if len(key) != 32:  # then pages that are open ask for a new link
        key = secrets.token_bytes(32)
    return hmac.new(key, str(journal.absolute()).encode(), hashlib.sha256).digest()
