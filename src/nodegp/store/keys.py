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

__all__ = ["Texts", "integer_keys", "text_keys"]

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
    padded = np.concatenate([texts.content, np.zeros(_WORD, np.uint8)])
    # Eight bytes from each place on, read as a number: a view, which copies nothing.
    words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))
    rows = np.flatnonzero(stops > starts)
    place = starts[rows]
    while len(rows):
        n_bytes = np.minimum(stops[rows] - place, _WORD).astype(np.uint64)
        unused = np.uint64(8) * (np.uint64(_WORD) - n_bytes)
        word = (words[place] << unused) >> unused  # without what belongs to the next text
        keys[rows] = _mixed((keys[rows] ^ word) + _STEP)
        place = place + _WORD
        is_longer = place < stops[rows]
        rows, place = rows[is_longer], place[is_longer]
    return keys


def _mixed(values: np.ndarray) -> np.ndarray:
    mixed = values ^ (values >> np.uint64(30))
    mixed *= _FIRST
    mixed ^= mixed >> np.uint64(27)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(31)
    return mixed
