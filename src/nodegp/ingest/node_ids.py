"""The nodes' ids: read once, kept in files, and looked up for every end of every edge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nodegp.ingest.sources import Source
from nodegp.io.ids import TEXT, examples, ids_of
from nodegp.store.arrays import index_dtype, write_array, write_blocks
from nodegp.store.building import Building
from nodegp.store.keys import Texts, integer_keys, padded, same_texts, text_keys
from nodegp.store.lookup import IdIndex, fits_table
from nodegp.store.parts import Records, write_ids
from nodegp.store.runs import SortedRuns

__all__ = ["NodeIds", "texts_of"]

_CHUNK = 1 << 20  # ids in a file of their own
_LISTED = 5
_COMPARED = 1_000  # ids that seem to be there twice and are looked at
_FOLDER = "names"  # of the files of ids, until the parts are known

Ids = np.ndarray | Texts


class NodeIds:
    """The ids of all nodes in files, in the order of the nodes, and the index of them."""

    def __init__(self, building: Building, source: Source, id_names: list[str]):
        self._building, self._source, self._names = building, source, id_names
        self._folder = building.subfolder(_FOLDER)
        self.n_nodes = 0
        self.is_text = False
        self._stops: list[int] = []  # of each chunk, the node after its last
        self._is_text: list[bool] = []
        self._index: IdIndex | None = None
        self._said: dict[str, Any] = {}

    def read(self, tell: Any) -> None:
        """Read the column of ids, from where that stopped if it did."""
        building = self._building
        last = building.last("ids")
        if not building.last("all ids"):
            waiting: list[pa.Array] = []
            n_waiting = 0
            n_done, n_chunks = (last["n_nodes"], last["chunk"] + 1) if last else (0, 0)
            types = dict.fromkeys(self._names, pa.string())
            columns = {file.path: [name] for file, name in self._files()}
            batches = self._source.batches(
                lambda file: columns[file.path], types, _CHUNK, last["place"] if last else (-1, -1)
            )
            place = None
            for batch in batches:
                name = columns[batch.table.file.path][0]
                waiting.append(ids_of(batch.table, name))
                n_waiting += len(batch.table)
                place = batch.place
                if n_waiting >= _CHUNK:
                    self._write(n_chunks, waiting, n_done + n_waiting, place)
                    n_done, n_chunks = n_done + n_waiting, n_chunks + 1
                    waiting, n_waiting = [], 0
                    tell(n_done)
            if place is not None and n_waiting:
                self._write(n_chunks, waiting, n_done + n_waiting, place)
                n_done += n_waiting
            if not n_done:
                raise ValueError(f"{self._source.path} has no rows; a graph needs nodes")
            building.record("all ids", n_nodes=n_done)
        entries = building.entries("ids")
        self.n_nodes = entries[-1]["n_nodes"]
        self._stops = [entry["n_nodes"] for entry in entries]
        self._is_text = [entry["is_text"] for entry in entries]
        self.is_text = any(self._is_text)

    def _files(self) -> Iterator[tuple[Any, str]]:
        return zip(self._source.files, self._names, strict=True)

    def _write(self, chunk: int, parts: list[Any], n_nodes: int, place: list[int]) -> None:
        """A chunk of ids, whole numbers if all of them are."""
        is_text = any(part.type == TEXT for part in parts)
        name = f"{chunk:05d}"
        if is_text:
            texts = texts_of(parts)
            write_array(self._folder / f"{name}.offsets.npy", texts.offsets)
            write_array(self._folder / f"{name}.text.npy", padded(texts.content))
            bounds = [0, 0]
        else:
            numbers = np.concatenate([part.to_numpy() for part in parts])
            write_array(self._folder / f"{name}.npy", numbers)
            bounds = [int(numbers.min()), int(numbers.max())] if len(numbers) else [0, 0]
        self._building.record(
            "ids", chunk=chunk, n_nodes=n_nodes, place=place, is_text=is_text, bounds=bounds
        )

    def chunks(self) -> Iterator[tuple[int, Ids]]:
        """All ids, with the number of the first of them, as text if any of them is."""
        start = 0
        for entry in self._building.entries("ids"):
            name = f"{entry['chunk']:05d}"
            ids: Ids
            if entry["is_text"]:
                offsets = np.load(self._folder / f"{name}.offsets.npy")
                content = np.load(self._folder / f"{name}.text.npy")
                ids = Texts(offsets, content[: offsets[-1]])
            else:
                ids = np.load(self._folder / f"{name}.npy")
                if self.is_text:  # one way to be written, so nothing is lost
                    ids = texts_of([pa.chunked_array([pa.array(ids)])])
            yield start, ids
            start = entry["n_nodes"]

    # --- the index ------------------------------------------------------------------------------

    def write_index(self, range_entries: int) -> None:
        """Write the index, and refuse ids that are there twice."""
        said = self._building.last("index")
        if said is None:
            bounds = [entry["bounds"] for entry in self._building.entries("ids")]
            low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
            if not self.is_text and fits_table(low, high, self.n_nodes):
                self._write_table(low, high)
            else:
                self._write_sorted(range_entries)
            said = self._building.last("index") or {}
        self._said = said["ids"]
        self._index = IdIndex.open(self._building.folder, self._said)

    @property
    def said(self) -> dict[str, Any]:
        """What the manifest says of the ids."""
        return self._said

    def _write_table(self, low: int, high: int) -> None:
        dtype = index_dtype(self.n_nodes)
        table = np.full(high - low + 1, -1, dtype)
        again = [np.zeros(0, np.int64)]
        for start, ids in self.chunks():
            if isinstance(ids, Texts):
                raise TypeError("text has no table")
            nodes = np.arange(start, start + len(ids), dtype=dtype)
            is_there = table[ids - low] >= 0
            # Backwards, so that of two equal ids the first is kept.
            table[ids[::-1] - low] = nodes[::-1]
            again.append(nodes[is_there | (table[ids - low] != nodes)].astype(np.int64))
        self._refuse_repeated(np.concatenate(again))
        record = write_array(self._building.folder / "ids/table.npy", table)
        said = {"kind": "integer", "index": "table", "low": low}
        self._building.record("index", {"ids/table.npy": record}, ids=said)

    def _write_sorted(self, range_entries: int) -> None:
        """Sort the keys on disk, in runs, each with its node."""
        self._building.discard("keys")
        folder = self._building.subfolder("keys")
        dtype = index_dtype(self.n_nodes)
        runs = SortedRuns(folder, carries=True)
        for start, ids in self.chunks():
            keys = text_keys(ids) if isinstance(ids, Texts) else integer_keys(ids)
            runs.add(keys, np.arange(start, start + len(ids), dtype=dtype))
            if runs.n_waiting >= range_entries:
                runs.flush()
        runs.flush()
        home, files = self._building.folder, {}
        shape = (self.n_nodes,)
        # One file after the other, as they are written whole: the ranges are read twice.
        again: list[np.ndarray] = []

        def keys_in_order() -> Iterator[np.ndarray]:
            for _, _, (keys, nodes) in runs.ranges(range_entries):
                if nodes is not None:
                    again.append(_repeated(keys, nodes))
                yield keys

        def nodes_in_order() -> Iterator[np.ndarray]:
            for _, _, (_, nodes) in runs.ranges(range_entries):
                yield np.zeros(0, dtype) if nodes is None else nodes

        files["ids/keys.npy"] = write_blocks(home / "ids/keys.npy", "<u8", shape, keys_in_order())
        self._refuse_repeated(self._truly_repeated(np.concatenate(again)))
        files["ids/nodes.npy"] = write_blocks(
            home / "ids/nodes.npy", dtype, shape, nodes_in_order()
        )
        said = {"kind": "text" if self.is_text else "integer", "index": "sorted"}
        self._building.record("index", files, ids=said)
        self._building.discard("keys")

    def _truly_repeated(self, nodes: np.ndarray) -> np.ndarray:
        """Of nodes whose keys are there before, those whose ids are too: two texts may share a key,
        which hardly ever happens, so that a few are looked at."""
        if not self.is_text or not len(nodes):
            return nodes
        nodes = np.sort(nodes)
        names = dict(self._at(nodes[:_COMPARED].tolist()))
        wanted = set(names.values())
        first: dict[str, int] = {}
        for start, ids in self.chunks():
            texts = ids.tolist() if isinstance(ids, Texts) else []
            for place, name in enumerate(texts):
                if name in wanted:
                    first.setdefault(name, start + place)
        is_other = [node for node, name in names.items() if first[name] == node]
        return np.setdiff1d(nodes, is_other)

    def _refuse_repeated(self, nodes: np.ndarray) -> None:
        if not len(nodes):
            return
        first = self._at(np.sort(nodes)[:_LISTED].tolist())
        named = ", ".join(f"{name!r} in row {row + 1}" for row, name in first)
        raise ValueError(
            f"column {self._names[0]!r} of {self._source.path} has {len(nodes):,} ids that were "
            f"there before: {named}. Each node needs an id of its own."
        )

    def _at(self, nodes: list[int]) -> list[tuple[int, Any]]:
        """The ids of a few nodes."""
        found = []
        for start, ids in self.chunks():
            inside = [node for node in nodes if start <= node < start + len(ids)]
            values = ids if isinstance(ids, Texts) else ids.tolist()
            found += [(node, values[node - start]) for node in inside]
        return found

    # --- looking up -----------------------------------------------------------------------------

    def find(self, names: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Positions of these names, -1 for those that are not there."""
        if self._index is None:
            raise RuntimeError("the index is not written yet")
        if self.is_text:
            texts = texts_of([names])
            return self._index.find_texts(texts, self._have_texts)
        if names.type != TEXT:
            return self._index.find_integers(_numbers(names))
        # Text that is no number as it would be written is no node's id.
        is_number = _are_numbers(names)
        values = pc.if_else(is_number, names, pa.scalar("0", TEXT)).cast(pa.int64())
        return np.where(_numbers(is_number), self._index.find_integers(_numbers(values)), -1)

    def _have_texts(self, nodes: np.ndarray, texts: Texts, asked: np.ndarray) -> np.ndarray:
        """Which of these nodes have these texts: only keys that are there are compared."""
        result = np.zeros(len(nodes), bool)
        chunks = np.searchsorted(self._stops, nodes, side="right")
        for chunk in np.unique(chunks).tolist():
            start = 0 if chunk == 0 else self._stops[chunk - 1]
            offsets, content = self._mapped(chunk)
            rows = np.flatnonzero(chunks == chunk)
            places = nodes[rows] - start
            starts, stops = offsets[places], offsets[places + 1]
            result[rows] = same_texts(texts, asked[rows], content, starts, stops)
        return result

    def _mapped(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """Where each text of a chunk begins, and the bytes of all of them, padded."""
        name = f"{chunk:05d}"
        if self._is_text[chunk]:
            offsets = np.load(self._folder / f"{name}.offsets.npy", mmap_mode="r")
            return offsets, np.load(self._folder / f"{name}.text.npy", mmap_mode="r")
        texts = texts_of([pa.array(np.load(self._folder / f"{name}.npy"))])
        return texts.offsets, padded(texts.content)

    def examples(self) -> str:
        return examples([name for _, name in self._at([0, 1, 2])])

    # --- the parts ------------------------------------------------------------------------------

    def write_parts(self, boundaries: list[int]) -> Records:
        """Write the ids of each part."""
        files: Records = {}
        waiting: list[Ids] = []
        part, n_waiting = 0, 0
        for _, ids in self.chunks():
            waiting.append(ids)
            n_waiting += len(ids)
            while part + 1 < len(boundaries):
                n_rows = boundaries[part + 1] - boundaries[part]
                if n_waiting < n_rows:
                    break
                joined = _joined(waiting)
                files |= write_ids(self._building.folder, part, _rows(joined, 0, n_rows))
                waiting = [_rows(joined, n_rows, len(joined))]
                n_waiting -= n_rows
                part += 1
        return files


def _numbers(names: Any) -> np.ndarray:
    values: np.ndarray = names.to_numpy(zero_copy_only=False)
    return values


def _are_numbers(text: Any) -> Any:
    """Which texts are whole numbers of 64 bits, written as they would be."""
    is_short = pc.match_substring_regex(text, r"^(0|-?[1-9][0-9]{0,17})$")
    for pattern, largest in (
        (r"^[1-9][0-9]{18}$", str(2**63 - 1)),
        (r"^-[1-9][0-9]{18}$", str(-(2**63))),
    ):
        # Of numbers with as many digits, the order is that of the text.
        is_long = pc.and_(pc.match_substring_regex(text, pattern), pc.less_equal(text, largest))
        is_short = pc.or_(is_short, is_long)
    return is_short


def _rows(ids: Ids, start: int, stop: int) -> Ids:
    return ids.rows(start, stop) if isinstance(ids, Texts) else ids[start:stop]


def _joined(several: list[Ids]) -> Ids:
    if len(several) == 1:
        return several[0]
    texts = [ids for ids in several if isinstance(ids, Texts)]
    if not texts:
        return np.concatenate([ids for ids in several if isinstance(ids, np.ndarray)])
    shifts = np.cumsum([0, *(len(one.content) for one in texts)])
    offsets = [one.offsets[:-1] + shift for one, shift in zip(texts, shifts[:-1], strict=True)]
    content = np.concatenate([one.content for one in texts])
    return Texts(np.append(np.concatenate(offsets), shifts[-1]), content)


def texts_of(parts: list[Any]) -> Texts:
    """Columns of Arrow, of text or of whole numbers, as texts."""
    found: list[Ids] = []
    for part in parts:
        text = part.cast(TEXT)
        for chunk in text.chunks if isinstance(text, pa.ChunkedArray) else [text]:
            _, ends, content = chunk.buffers()
            offsets = np.frombuffer(ends, np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
            if not len(chunk):
                continue
            data = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
            found.append(Texts(offsets - offsets[0], data[offsets[0] : offsets[-1]]))
    if not found:
        return Texts(np.zeros(1, np.int64), np.zeros(0, np.uint8))
    joined = _joined(found)
    assert isinstance(joined, Texts)
    return joined


def _repeated(keys: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Nodes whose key is that of one before them; runs keep nodes with equal keys in order."""
    return nodes[np.append(False, keys[1:] == keys[:-1])].astype(np.int64)
