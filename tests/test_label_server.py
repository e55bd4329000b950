"""The server of the labelling page: who may speak to it, and what it answers."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
from importlib import resources

import pytest

pytest.importorskip("starlette", reason="the labelling page needs the extra `label`")

from starlette.requests import Request
from starlette.routing import Route
from starlette.testclient import TestClient

from labelling import answer, open_session, truth, two_groups
from nodegp.web.security import HEADERS, Guard, private_key
from nodegp.web.server import LabelServer
from nodegp.web.serving import listening_socket

PORT, TOKEN = 8719, "the-token"
HERE = f"http://127.0.0.1:{PORT}"
JSON = {"Content-Type": "application/json", "Origin": HERE}


@pytest.fixture
def session(tmp_path):
    one = open_session(tmp_path / "labels.sqlite")
    yield one
    one.close()


@pytest.fixture
def server(session):
    return LabelServer(session, "# Guide", "two groups")


@pytest.fixture
def guarded(server):
    return Guard(server.app, PORT, TOKEN, b"key")


@pytest.fixture
def stranger(guarded):
    with TestClient(guarded, base_url=HERE, follow_redirects=False) as client:
        yield client


@pytest.fixture
def client(stranger):
    assert stranger.get(f"/?token={TOKEN}").status_code == 303
    return stranger


def post(client, kind, id="an id of some length", headers=JSON, **data):
    command = json.dumps({"id": id, "kind": kind, "data": data})
    return client.post("/api/do", content=command, headers=headers)


def every_route(server):
    """(method, path) of all that the router knows, with something for each parameter."""
    found = []
    for route in server.app.routes:
        assert isinstance(route, Route), "a mount would hide its routes from this test"
        path = route.path.replace("{number:int}", "1").replace("{name}", "main.js")
        path = path.replace("{format}", "csv")
        found += [(method, path) for method in route.methods]
    return found


# --- who may speak --------------------------------------------------------------------------------


def test_no_route_answers_without_the_cookie(server, stranger):
    routes = every_route(server)
    assert len(routes) >= 15
    for method, path in [*routes, ("GET", "/no/such/thing"), ("POST", "/"), ("PUT", "/api/do")]:
        headers = JSON if method not in ("GET", "HEAD") else {}
        assert stranger.request(method, path, headers=headers).status_code == 401, (method, path)


@pytest.mark.parametrize(
    "cookie", ["", "x", "nodegp-label-8719=", "nodegp-label-8719=x", 'nodegp-label-8719="\\', "="]
)
def test_no_cookie_but_the_right_one(stranger, cookie):
    assert stranger.get("/api/standing", headers={"Cookie": cookie}).status_code == 401


def test_the_token_is_good_once(guarded, stranger):
    assert stranger.get("/?token=wrong").status_code == 401
    assert stranger.get(f"/static/main.js?token={TOKEN}").status_code == 401
    entry = stranger.get(f"/?token={TOKEN}")
    assert entry.headers["location"] == "/"
    cookie = entry.headers["set-cookie"]
    assert cookie.startswith("nodegp-label-8719=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {p.strip() for p in cookie.split(";")}
    assert stranger.get("/").status_code == 200
    other = TestClient(guarded, base_url=HERE, follow_redirects=False)
    assert other.get(f"/?token={TOKEN}").status_code == 401
    assert stranger.get(f"/?token={TOKEN}").status_code == 303  # out of the address again


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8719",
        "127.0.0.1",
        "127.0.0.1:80",
        "[::1]:8719",
        "",
        "0.0.0.0:8719",
    ],
)
def test_another_name_is_refused(client, host):
    for path in ("/", "/api/standing", f"/?token={TOKEN}"):
        assert client.get(path, headers={"Host": host}).status_code == 403


def test_localhost_is_a_name_of_this_machine(client):
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    headers = {"Host": f"localhost:{PORT}", "Cookie": cookie}
    assert client.get("/api/standing", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": f"http://localhost:{PORT}"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_commands_from_elsewhere_are_refused(client, session, changes):
    node = session.question.node
    reply = post(client, "answer", headers=JSON | changes, number=node, label="left")
    assert reply.status_code == 403
    assert session.state.labels == {}


def test_a_command_without_an_origin_is_refused(client):
    headers = {"Content-Type": "application/json"}
    assert post(client, "undo", headers=headers).status_code == 403


def test_what_is_read_from_elsewhere_is_refused(client):
    cross = {"Sec-Fetch-Site": "cross-site"}
    for path in ("/api/standing", "/api/export/csv", "/static/main.js", "/"):
        assert client.get(path, headers=cross).status_code == 403
    visit = cross | {"Sec-Fetch-Mode": "navigate"}
    assert client.get("/", headers=visit).status_code == 200
    assert client.get("/api/export/csv", headers=visit).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_commands_are_json(client, kind):
    assert post(client, "undo", headers=JSON | {"Content-Type": kind}).status_code == 415


def test_a_command_has_a_size(client):
    reply = post(client, "note", number=0, text="x" * 300_000)
    assert reply.status_code == 413
    chunked = client.post("/api/do", content=iter([b"{}"]), headers=JSON)
    assert chunked.status_code == 413


def test_every_answer_has_the_headers(server, client):
    for method, path in [*every_route(server), ("GET", "/nothing")]:
        if "news" in path:
            continue  # it does not end
        answer = client.request(method, path, headers=JSON)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, (path, name)
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_there_are_no_web_sockets(guarded):
    from starlette.websockets import WebSocketDisconnect

    client = TestClient(guarded, base_url=HERE)
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/api/news"):
        pass


def test_a_key_is_private_and_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = private_key(tmp_path / "a.sqlite")
    assert private_key(tmp_path / "a.sqlite") == first
    assert private_key(tmp_path / "b.sqlite") != first
    (file,) = (tmp_path / "state").rglob("*.key")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    monkeypatch.setenv("XDG_STATE_HOME", str(file))  # no folder: then only for this time
    assert private_key(tmp_path / "a.sqlite") != private_key(tmp_path / "a.sqlite")


# --- what is answered -----------------------------------------------------------------------------


def test_an_answer_leads_to_the_next_question(client, session):
    standing = client.get("/api/standing").json()
    assert (standing["name"], standing["guideline"]) == ("two groups", True)
    node = standing["question"]["number"]
    reply = post(client, "answer", number=node, label=truth(node), confidence=0.75).json()
    assert reply["panels"]["answers"] == 1
    assert reply["question"]["number"] != node
    assert session.state.marks[node].confidence == 0.75
    assert client.get(f"/api/node/{node}").json()["said"]["label"] == truth(node)


def test_the_same_command_gets_the_same_reply(client, session):
    node = session.question.node
    first = post(client, "answer", "the same id", number=node, label="left").json()
    again = post(client, "answer", "the same id", number=node, label="left").json()
    assert again == first
    assert len(session.state.labels) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{}", b"null", b"1", b'"x"', b"{\"id\": 1}", b"\xff", b"[" * 50_000,
        b'{"id": "short", "kind": "undo"}', b'{"id": 12345678, "kind": "undo"}',
        b'{"id": "long enough", "kind": ["undo"]}',
        b'{"id": "long enough", "kind": "undo", "data": []}',
    ],
)  # fmt: skip
def test_what_is_no_command(client, body):
    reply = client.post("/api/do", content=body, headers=JSON)
    assert reply.status_code == 400
    assert "command" in reply.json()["error"]


def test_an_answer_to_another_journal_is_not_kept(client, session):
    """A browser may have one that a server on the same port has not heard."""
    journal = client.get("/api/standing").json()["journal"]
    command = {"id": "an id of some length", "kind": "answer", "data": {"number": 3}}
    command["data"]["label"] = "left"
    refused = client.post(
        "/api/do", content=json.dumps(command | {"journal": "other"}), headers=JSON
    )
    assert (refused.status_code, session.state.labels) == (409, {})
    assert "another journal" in refused.json()["error"]
    kept = client.post("/api/do", content=json.dumps(command | {"journal": journal}), headers=JSON)
    assert (kept.status_code, session.state.labels) == (200, {3: "left"})


def test_half_a_character_is_refused(client):
    """Of two that make one in UTF-16; a journal could not be written with it."""
    assert post(client, "note", number=0, text="bad \ud83d").status_code == 400
    assert post(client, "note", number=0, text="good \U0001f600").status_code == 200


def test_what_cannot_be_done_is_said(client, session):
    reply = post(client, "answer", number=0, label="nothing")
    assert (reply.status_code, reply.json()) == (409, {"error": "there is no class 'nothing'"})
    assert post(client, "_about", number=0).status_code == 409
    assert client.get("/api/node/99").status_code == 404
    assert client.get("/api/node/-1").status_code == 404
    assert client.get("/api/thoughts/3").status_code == 409
    assert client.get("/api/export/exe").status_code == 404
    assert client.get("/static/..%2fserver.py").status_code == 404
    assert client.get("/static/server.py").status_code == 404
    assert client.put("/api/do", headers=JSON, content="{}").status_code == 405


def test_a_journal_that_cannot_be_written_is_said(client, session, monkeypatch):
    from nodegp.label.journal import JournalError

    def fail(events):
        raise JournalError("labels.sqlite could not be written: database or disk is full")

    monkeypatch.setattr(session.journal, "_write", fail)
    reply = post(client, "answer", number=session.question.node, label="left")
    assert reply.status_code == 503
    assert "disk is full" in reply.json()["error"]


def test_thoughts_only_after_the_answer(client, session):
    for _ in range(2):
        node = session.question.node
        assert client.get(f"/api/thoughts/{node}").status_code == 409
        post(client, "answer", f"answer {node:5}", number=node, label=truth(node))
    assert client.get(f"/api/thoughts/{node}").json()["before"]
    post(client, "mode", "suggestions please", suggestions=True)
    assert "suggestion" in client.get("/api/standing").json()["question"]


def test_exports(client, session):
    node = session.question.node
    post(client, "answer", number=node, label=truth(node))
    for format, kind in (
        ("csv", "text/csv"),
        ("jsonl", "application/jsonl"),
        ("parquet", "parquet"),
    ):
        reply = client.get(f"/api/export/{format}")
        assert kind in reply.headers["content-type"]
        assert f'filename="labels.{format}"' in reply.headers["content-disposition"]
        assert reply.content


def test_the_page_is_small_and_complete(client):
    folder = resources.files("nodegp.web") / "static"
    sizes = {file.name: len(file.read_bytes()) for file in folder.iterdir()}
    assert sum(sizes.values()) <= 80_000
    page = client.get("/").text
    for name, size in sizes.items():
        if name != "index.html":
            assert len(client.get(f"/static/{name}").content) == size
    assert "http" not in page.replace("http-equiv", "")  # nothing comes from elsewhere


def test_hostile_text_is_only_ever_data(tmp_path):
    import numpy as np

    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    subject = two_groups(ids=np.array([f"{evil}{i}" for i in range(24)], object))
    subject.classes = [evil, "b"]
    session = open_session(tmp_path / "evil.sqlite", subject)
    app = Guard(LabelServer(session, evil, evil).app, PORT, TOKEN, b"key")
    with TestClient(app, base_url=HERE) as client:
        assert client.get(f"/?token={TOKEN}").status_code == 200
        assert evil not in client.get("/").text
        standing = client.get("/api/standing")
        assert standing.headers["content-type"] == "application/json"
        assert standing.json()["classes"][0] == evil


def test_who_begins_to_listen_is_told_where_things_stand(session):
    """What was answered between reading the page and listening used to go unnoticed there."""
    server = LabelServer(session)

    async def first_line() -> str:
        stream = (await server._stream(Request({"type": "http"}))).body_iterator
        answer(session)
        line = await anext(stream)
        await stream.aclose()
        return line

    line = asyncio.run(first_line())
    assert json.loads(line.partition("data: ")[2])["seq"] == session.standing()["seq"]


def test_a_reply_is_not_held_back():
    """Its head and its body go out at once, without waiting for the browser to confirm the head."""
    found = []

    async def look():
        def met(reader, writer):
            connected = writer.get_extra_info("socket")
            found.append(connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with listening_socket(0) as place:
            async with await asyncio.start_server(met, sock=place):
                reader, writer = await asyncio.open_connection(*place.getsockname())
                await reader.read()
                writer.close()

    asyncio.run(look())
    assert found == [1]


def test_what_is_worked_out_ahead_does_not_need_what_was_worked_out_before(server, monkeypatch):
    """Notes are written and likely answers tried, though the first step failed."""
    done = []

    def fail():
        done.append("anticipate")
        raise RuntimeError("no memory")

    monkeypatch.setattr(server.session, "anticipate", fail)
    monkeypatch.setattr(server.session, "note", lambda: done.append("note"))
    monkeypatch.setattr(server.session, "ahead", lambda: done.append("ahead"))
    asyncio.run(server._when_idle())
    assert done == ["anticipate", "note", "ahead"]
