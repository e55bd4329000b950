"""What a stored graph says of itself: the format of the folder, and the checks of it.

``manifest.json`` is written last, so that a folder without it is not, or not yet, a store. It has
the counts, the rows at which parts begin, and every file with its size and hashes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nodegp.declared import MismatchError, check_types, require
from nodegp.files import write_atomically
from nodegp.identity import fingerprint
from nodegp.store.arrays import REPAIR, FileRecord, StoreError, hash_of_ends, hash_of_file, writing

__all__ = [
    "FORMAT",
    "MANIFEST",
    "VERSION",
    "FeatureKind",
    "LabelKind",
    "Manifest",
    "edge_files",
    "feature_files",
    "id_files",
    "label_files",
]

FORMAT, VERSION = "nodegp-store", 2
_WITHOUT_LABELS = 1  # the version of stores that have none, which older programs read too
MANIFEST = "manifest.json"
_CLASS_TEXTS = ("classes.offsets", "classes.text")
INDEX_FILES = {
    "table": ("ids/table.npy",),
    "sorted": ("ids/keys.npy", "ids/nodes.npy"),
}


@dataclass(frozen=True)
class FeatureKind:
    """What the features of a stored graph are."""

    kind: str  # dense or sparse
    n_columns: int
    dtype: str
    names: tuple[str, ...] | None
    is_prepared: bool


@dataclass(frozen=True)
class LabelKind:
    """What the labels are that a stored graph was prepared with."""

    column: str  # that they came from
    kind: str  # integer or text
    n_labels: int
    n_classes: int


@dataclass(frozen=True)
class Manifest:
    """The contents of ``manifest.json``."""

    n_nodes: int
    n_edges: int
    n_entries: int
    boundaries: tuple[int, ...]
    weighted: bool
    features: FeatureKind | None
    ids: dict[str, Any] | None
    source: dict[str, Any]
    files: dict[str, FileRecord]
    fingerprint: str = ""
    format: str = FORMAT
    version: int = _WITHOUT_LABELS
    labels: LabelKind | None = None

    def sealed(self) -> Manifest:
        """The same with the hash of the graph: of nodes, edges and features with their order, and
        the rows at which parts begin. Labels are none of it."""
        labels = () if self.labels is None else label_files(self.labels.kind)
        hashes = {name: one.sha256 for name, one in self.files.items() if name not in labels}
        features = None if self.features is None else asdict(self.features)
        known_by = fingerprint(self.n_nodes, self.boundaries, self.weighted, features, hashes)
        return replace(self, fingerprint=known_by)

    def write(self, folder: Path) -> None:
        path, said = folder / MANIFEST, asdict(self)
        said["version"] = _WITHOUT_LABELS if self.labels is None else VERSION
        if self.labels is None:
            del said["labels"]
        with writing(path):
            write_atomically(path, (json.dumps(said, indent=1) + "\n").encode())

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a folder, if it is a store that this version can read."""
        path = folder / MANIFEST
        if not folder.is_dir():
            what = "is a file" if folder.exists() else "does not exist"
            raise StoreError(f"{folder} {what}; a stored graph is a folder that prepare made")
        if not path.exists():
            raise StoreError(
                f"{folder} has no {MANIFEST}: it is no stored graph, or its preparation was not "
                "finished, which the same command goes on with"
            )
        try:
            data = json.loads(path.read_bytes())
            require(isinstance(data, dict) and data.get("format") == FORMAT, "it is of another")
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} is not of a stored graph ({error}); {REPAIR}") from None
        if data.get("version") not in (_WITHOUT_LABELS, VERSION):
            raise StoreError(
                f"{folder} is a store of version {data.get('version')}, and this nodegp reads "
                f"versions up to {VERSION}; prepare it again with this nodegp"
            )
        try:
            return cls._from_dict(data)
        except (MismatchError, TypeError, KeyError) as error:
            raise StoreError(f"{path} is damaged ({error}); {REPAIR}") from None

    @classmethod
    def _from_dict(cls, data: Mapping[str, Any]) -> Manifest:
        files = {str(name): FileRecord(**record) for name, record in data["files"].items()}
        for record in data["files"].values():
            check_types(FileRecord, record)
        features = None
        if data["features"] is not None:
            names = data["features"]["names"]
            kind = data["features"] | {"names": None if names is None else tuple(names)}
            check_types(FeatureKind, kind)
            features = FeatureKind(**kind)
        labels = None
        if data.get("labels") is not None:
            check_types(LabelKind, data["labels"])
            labels = LabelKind(**data["labels"])
            require(labels.kind in ("integer", "text"), f"labels of kind {labels.kind!r}")
        values = {**data, "files": files, "features": features, "labels": labels}
        values["boundaries"] = tuple(data["boundaries"])
        check_types(cls, values)
        manifest = cls(**values)
        if features is not None:
            require(features.kind in ("dense", "sparse"), f"features of kind {features.kind!r}")
            require(features.dtype in ("float32", "float64"), f"features of {features.dtype!r}")
        if manifest.ids is not None:
            kinds = (manifest.ids.get("kind"), manifest.ids.get("index"))
            require(kinds[0] in ("integer", "text") and kinds[1] in INDEX_FILES, f"ids {kinds}")
        starts = manifest.boundaries
        is_whole = starts[:1] == (0,) and starts[-1] == manifest.n_nodes
        require(is_whole and all(np.diff(starts) > 0), "parts that are not all of the nodes")
        require(manifest.n_entries == 2 * manifest.n_edges, "edges that are not in both directions")
        return manifest

    @property
    def n_parts(self) -> int:
        return len(self.boundaries) - 1

    def needed_files(self) -> Iterator[str]:
        """The files that a store like this has."""
        yield "degrees.npy"
        for part in range(self.n_parts):
            yield from edge_files(part, self.weighted)
            if self.features is not None:
                yield from feature_files(part, self.features.kind)
            if self.ids is not None:
                yield from id_files(part, self.ids["kind"])
        if self.features is not None:
            yield "columns.npz"
        if self.ids is not None:
            yield from INDEX_FILES[self.ids["index"]]
        if self.labels is not None:
            yield from label_files(self.labels.kind)

    def check(self, folder: Path, verify: bool) -> None:
        """Refuse a store with a file that is missing, cut off, or in another's place.

        Sizes and both ends of each file are looked at, and with ``verify`` all of it.
        """
        for name in self.needed_files():
            record, path = self.files.get(name), folder / name
            if record is None:
                raise StoreError(f"{folder / MANIFEST} does not list {name}; {REPAIR}")
            try:
                size = path.stat().st_size
                is_same = size == record.bytes and hash_of_ends(path) == record.ends
                if is_same and verify:
                    is_same = hash_of_file(path) == record.sha256
            except FileNotFoundError:
                raise StoreError(f"{path} is missing; {REPAIR}") from None
            if size != record.bytes:
                raise StoreError(f"{path} has {size:,} bytes and not {record.bytes:,}; {REPAIR}")
            if not is_same:
                raise StoreError(f"{path} is not the file that was prepared; {REPAIR}")


def edge_files(part: int, weighted: bool) -> list[str]:
    """Where the edges of a part are: offsets, neighbours, and weights if there are any."""
    kinds = ["indptr", "indices", *(["weights"] if weighted else [])]
    return [f"edges/{part:05d}.{kind}.npy" for kind in kinds]


def feature_files(part: int, kind: str) -> list[str]:
    if kind == "dense":
        return [f"features/{part:05d}.npy"]
    return [f"features/{part:05d}.{array}.npy" for array in ("indptr", "indices", "data")]


def id_files(part: int, kind: str) -> list[str]:
    """Whole numbers; or text as bytes of UTF-8, and where each begins."""
    if kind == "integer":
        return [f"ids/{part:05d}.npy"]
    return [f"ids/{part:05d}.{array}.npy" for array in ("offsets", "text")]


def label_files(kind: str) -> list[str]:
    """Labelled nodes, the places of their labels among the classes, and these, as ids are kept."""
    arrays = ["nodes", "codes", *(["classes"] if kind == "integer" else _CLASS_TEXTS)]
    return [f"labels/{array}.npy" for array in arrays]
