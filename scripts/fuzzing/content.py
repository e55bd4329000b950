"""Damage to what a file holds: any file, text files, matrices, and model files."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from nodegp.persistence import checksum

Damage = Callable[[bytes, random.Random], bytes]

# --- any file -------------------------------------------------------------------------------------


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 4, 40])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def flip_start(content: bytes, rng: random.Random) -> bytes:
    """Near the start, where headers are."""
    return flip(content[:400], rng) + content[400:]


def insert(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.randbytes(rng.randint(1, 30)) + content[at:]


def remove(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + content[at + rng.randint(1, 30) :]


def garbage(content: bytes, rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice([1, 10, 5000]))


def empty(content: bytes, rng: random.Random) -> bytes:
    return b""


def zeros(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + b"\0" * rng.choice([1, 1, len(content) - at])


def twice(content: bytes, rng: random.Random) -> bytes:
    return content + content


def zipped(content: bytes, rng: random.Random) -> bytes:
    return gzip.compress(content, mtime=0)


ANY: tuple[Damage, ...] = (
    cut, cut, flip, flip, flip_start, insert, remove, garbage, empty, zeros, twice, zipped,
)  # fmt: skip

# --- text -----------------------------------------------------------------------------------------


def byte_order_mark(content: bytes, rng: random.Random) -> bytes:
    return b"\xef\xbb\xbf" + content


def other_encoding(content: bytes, rng: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    codec = rng.choice(["utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7"])
    return text.replace("a", rng.choice("aä")).encode(codec, "replace")


def windows_lines(content: bytes, rng: random.Random) -> bytes:
    return content.replace(b"\n", b"\r\n")


def old_lines(content: bytes, rng: random.Random) -> bytes:
    return content.replace(b"\n", b"\r")


def mixed_lines(content: bytes, rng: random.Random) -> bytes:
    return b"".join(
        line + rng.choice([b"\n", b"\r\n", b"\r", b"\n\n"]) for line in content.splitlines()
    )


def quote(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice([b'"', b"'", b'"""', b'\\"']) + content[at:]


def other_delimiter(content: bytes, rng: random.Random) -> bytes:
    return content.replace(b",", b"\t").replace(b"\t", rng.choice([b";", b"|", b" ", b"\t", b","]))


def ragged(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = rng.choice([lines[at] + b",,", lines[at][: len(lines[at]) // 2], b",", b"#", b" "])
    return b"\n".join(lines)


def no_header(content: bytes, rng: random.Random) -> bytes:
    return content.partition(b"\n")[2]


def no_last_line_end(content: bytes, rng: random.Random) -> bytes:
    return content.rstrip(b"\n")


def title_above(content: bytes, rng: random.Random) -> bytes:
    return rng.choice([b"A table of mine\n", b"\n\n", b"# x\n", b"sep=,\n", b",,\n"]) + content


def long_cell(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return (
        content[:at]
        + rng.choice([b"y", b"7"]) * rng.choice([10**5, 10**6, 2 * 10**7])
        + content[at:]
    )


def many_names(content: bytes, rng: random.Random) -> bytes:
    """A million columns in the header, and once in a while in the rows too."""
    lines = content.split(b"\n")[:4]
    head = b"".join(b",c%d" % n for n in range(rng.choice([10**4, 10**6])))
    lines[0] += head
    if rng.random() < 0.5:
        commas = b"," * head.count(b",")
        lines[1:] = [line + commas if line else line for line in lines[1:]]
    return b"\n".join(lines)


TEXT: tuple[Damage, ...] = (
    byte_order_mark, other_encoding, windows_lines, old_lines, mixed_lines, quote, quote,
    other_delimiter, ragged, no_header, no_last_line_end, title_above,
)  # fmt: skip
HEAVY: tuple[Damage, ...] = (long_cell, many_names)  # seconds each, so not often

# --- matrices -------------------------------------------------------------------------------------


def other_matrix(content: bytes, rng: random.Random) -> bytes:
    """A .npy file of another type or shape, or with numbers that cannot be used."""
    matrix = np.load(io.BytesIO(content))
    n, d = matrix.shape
    odd = matrix.copy()
    odd[rng.randrange(n), 0] = rng.choice([np.nan, np.inf, -np.inf, 1e200, 1e-320])
    found = rng.choice(
        [odd, odd, matrix[:-1], matrix[0], matrix[:, :0], matrix[:, :, None], matrix > 0,
         matrix.astype(np.float16), matrix.astype(">f4"), matrix.astype(np.longdouble),
         matrix.astype(np.int8), matrix + 1j, matrix.astype(str), matrix.astype("S8"),
         np.asfortranarray(matrix), matrix * 0, np.ones((n, d)), np.array(3.0), np.zeros((0, 0)),
         np.zeros(n, [("a", float)]), matrix.astype("datetime64[s]"), matrix.astype(object),
         matrix * 1e140, np.repeat(matrix, 500, axis=1)]
    )  # fmt: skip
    file = io.BytesIO()
    np.save(file, found)
    return file.getvalue()


def claimed_shape(content: bytes, rng: random.Random) -> bytes:
    """A header that promises more than there is; without a byte moved."""
    return content.replace(b"(30, ", rng.choice([b"(99, ", b"(-1, ", b"(9**", b"(3L, ", b"(1e1 "]))


def other_sparse(content: bytes, rng: random.Random) -> bytes:
    matrix = sp.csr_array(sp.load_npz(io.BytesIO(content)))
    odd = matrix.copy()
    odd.data[rng.randrange(len(odd.data))] = rng.choice([np.nan, np.inf, 1e200, -1.0, 0.0])
    found = rng.choice(
        [odd, matrix[:-1], matrix * 0, matrix.tocsc(), matrix.tocoo(), matrix.tobsr(),
         matrix.todia(), matrix > 0, matrix.astype(np.int8), matrix.astype(np.float32),
         matrix.astype(complex), sp.csr_array((30, 0)), sp.csr_array((30, 10**6))]
    )  # fmt: skip
    file = io.BytesIO()
    sp.save_npz(file, found, compressed=rng.random() < 0.5)
    return file.getvalue()


def other_archive(content: bytes, rng: random.Random) -> bytes:
    """Parts of a sparse matrix that do not fit together, or are not there."""
    with np.load(io.BytesIO(content)) as archive:
        parts: dict[str, Any] = dict(archive)
    name = rng.choice(list(parts))
    part = parts[name][:1] if parts[name].ndim else np.array(7)
    odd = [None, np.zeros(3), part, -np.ones(5, int), np.array([10**12]), np.array(["x"], object)]
    replacement = rng.choice(odd)
    if replacement is None:
        del parts[name]
    elif rng.random() < 0.5 and parts[name].ndim:
        parts[name] = parts[name].copy()
        parts[name][rng.randrange(len(parts[name]))] = rng.choice([-1, 99, 10**6])
    else:
        parts[name] = replacement
    file = io.BytesIO()
    np.savez(file, **parts)
    return file.getvalue()


NPY: tuple[Damage, ...] = (other_matrix, other_matrix, other_matrix, claimed_shape)
NPZ: tuple[Damage, ...] = (other_sparse, other_archive)

# --- models ---------------------------------------------------------------------------------------


def description_of(content: bytes) -> dict[str, Any]:
    size = int.from_bytes(content[:8], "little")
    return json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["nodegp"])


def rewritten(content: bytes, change: Callable[[dict, dict], None]) -> bytes:
    """A model with its description or arrays changed, by someone who has read the format."""
    arrays, description = dict(load_arrays(content)), description_of(content)
    change(description, arrays)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save_arrays(arrays, metadata={"nodegp": json.dumps(description)})


def other_description(content: bytes, rng: random.Random) -> bytes:
    """Somewhere in the description a value is gone or is another."""

    def change(description: dict, arrays: dict) -> None:
        here: Any = description
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            key = rng.choice(keys)
            if isinstance(here[key], dict | list) and here[key] and rng.random() < 0.85:
                here = here[key]
                continue
            if rng.random() < 0.4:
                del here[key]
            elif isinstance(here, dict) and rng.random() < 0.2:
                here["unknown"] = here[key]
            else:
                here[key] = rng.choice(
                    [None, 0, -1, 1.5, 10**30, "x", "", [], {}, [1], True, float("nan"), {"a": 1}]
                )
            return

    return rewritten(content, change)


def other_arrays(content: bytes, rng: random.Random) -> bytes:
    """An array is gone, or has another shape, type or numbers that make no sense."""

    def change(description: dict, arrays: dict) -> None:
        name = rng.choice(list(arrays))
        array = arrays[name].copy()
        flat = array.reshape(-1)
        if len(flat) and rng.random() < 0.5:
            odd = (
                [-1, 99, 10**6, 2**31 - 1] if flat.dtype.kind in "iu" else [np.nan, np.inf, -1e300]
            )
            flat[rng.randrange(len(flat))] = np.array(rng.choice(odd)).astype(flat.dtype)
            arrays[name] = flat.reshape(array.shape)
            return
        kinds = [flat[:-1], flat[:0], array[None], array > 0, np.zeros(3), array * 0, array.T,
                 array[:-1], array[::-1], array.astype(np.float32), array.astype(np.int64),
                 arrays[rng.choice(list(arrays))]]  # fmt: skip
        arrays[name] = rng.choice(kinds)
        if rng.random() < 0.2:
            del arrays[name]

    return rewritten(content, change)


def newer(content: bytes, rng: random.Random) -> bytes:
    version = rng.choice([2, 99, 10**30, "2", None, 1.5, -1, True, [1]])
    return rewritten(content, lambda description, arrays: description.update(version=version))


def another_safetensors(content: bytes, rng: random.Random) -> bytes:
    metadata = rng.choice([None, {"a": "b"}, {"nodegp": "x"}, {"nodegp": "[]"}, {"nodegp": "{}"}])
    return save_arrays({"weights": np.ones(3)}, metadata=metadata)


def sealed(content: bytes) -> bytes:
    """A model that was changed, with the checksum of what it holds now."""

    def seal(description: dict, arrays: dict) -> None:
        description.pop("checksum", None)
        description["checksum"] = checksum(description, arrays)

    return rewritten(content, seal)


MODEL: tuple[Damage, ...] = (
    other_description, other_description, other_arrays, other_arrays, newer, another_safetensors,
)  # fmt: skip
