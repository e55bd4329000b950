"""Ids as keys of 64 bits: a whole number mixed so that keys are spread evenly, text hashed.

Mixing is one to one, so that two whole numbers never share a key; two texts may, so that a text
that was found by its key is compared. Everything works on arrays: a loop over ids would take longer
than all the rest of a preparation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

__all__ = ["Texts", "integer_keys", "padded", "same_texts", "text_keys"]

# The finaliser of splitmix64 (Steele, Lea and Flood 2014), which is one to one.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_WORD = 8  # bytes of a text that are hashed at a time


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts as the bytes of all of them in UTF-8, and where each begins."""

    offsets: np.ndarray  # (n + 1,) int64
    content: np.ndarray  # uint8

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        encoded = [text.encode() for text in texts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(text) for text in encoded], out=offsets[1:])
        return cls(offsets, np.frombuffer(b"".join(encoded), np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place: int) -> str:
        return bytes(self.content[self.offsets[place] : self.offsets[place + 1]]).decode()

    def tolist(self) -> list[str]:
        content, ends = self.content.tobytes(), self.offsets.tolist()
        return [content[a:b].decode() for a, b in pairwise(ends)]

    def rows(self, start: int, stop: int) -> Texts:
        first, last = self.offsets[start], self.offsets[stop]
        return Texts(self.offsets[start : stop + 1] - first, self.content[first:last])


def integer_keys(numbers: np.ndarray) -> np.ndarray:
    """A key for each whole number, (n,) uint64."""
    return _mixed(numbers.astype(np.int64, copy=False).view(np.uint64))


def text_keys(texts: Texts) -> np.ndarray:
    """A key for each text, (n,) uint64: its words of eight bytes, mixed in one after the other."""
    starts, stops = texts.offsets[:-1], texts.offsets[1:]
    keys = _mixed((stops - starts).view(np.uint64) + _STEP)
    words = _words(padded(texts.content))
    rows = np.flatnonzero(stops > starts)
    place = starts[rows]
    while len(rows):
        unused = _unused_bits(stops[rows] - place)
        word = (words[place] << unused) >> unused  # without what belongs to the next text
        keys[rows] = _mixed((keys[rows] ^ word) + _STEP)
        place = place + _WORD
        is_longer = place < stops[rows]
        rows, place = rows[is_longer], place[is_longer]
    return keys


def padded(content: np.ndarray) -> np.ndarray:
    """Bytes with some more behind them, so that there are eight from each place on."""
    return np.concatenate([content, np.zeros(_WORD, np.uint8)])


def same_texts(
    texts: Texts, rows: np.ndarray, others: np.ndarray, starts: np.ndarray, stops: np.ndarray
) -> np.ndarray:
    """Which of these rows are the texts between some places of :func:`padded` bytes, (n,) bool."""
    mine, theirs = _words(padded(texts.content)), _words(others)
    places = texts.offsets[rows]
    lengths = texts.offsets[rows + 1] - places
    is_same: np.ndarray = lengths == stops - starts
    left, done = np.flatnonzero(is_same & (lengths > 0)), 0
    while len(left):
        word = mine[places[left] + done] ^ theirs[starts[left] + done]
        is_other = (word << _unused_bits(lengths[left] - done)) != 0
        is_same[left[is_other]] = False
        done += _WORD
        left = left[~is_other & (lengths[left] > done)]
    return is_same


def _words(content: np.ndarray) -> np.ndarray:
    """Eight bytes from each place on, read as a number: a view, which copies nothing."""
    return np.ndarray((len(content) - _WORD + 1,), "<u8", content, strides=(1,))


def _unused_bits(n_bytes: np.ndarray) -> np.ndarray:
    """Of the last word of a text that has so many bytes left."""
    return np.uint64(8) * (np.uint64(_WORD) - np.minimum(n_bytes, _WORD).astype(np.uint64))


def _mixed(values: np.ndarray) -> np.ndarray:
    mixed = values ^ (values >> np.uint64(30))
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed
