"""Stored graphs for a front end: what a preparation will take, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodegp.app.frontend import SILENT, Progress
from nodegp.ingest import Preparation, size_in_words
from nodegp.io.words import amount, listed
from nodegp.store import StoredGraph

__all__ = ["StorePreparation", "store_facts"]


@dataclass(frozen=True, eq=False)
class StorePreparation:
    """Tables that are to become a stored graph; nothing is written until :meth:`run`."""

    preparation: Preparation
    progress: Progress = SILENT

    @classmethod
    def of(
        cls,
        nodes: str | Path,
        edges: str | Path,
        out: str | Path,
        progress: Progress = SILENT,
        part_entries: int | None = None,
        **options: Any,
    ) -> StorePreparation:
        """See :func:`nodegp.prepare`, which has the same options."""
        if part_entries is not None:
            options["part_entries"] = part_entries
        preparation = Preparation.of(nodes, edges, out, **options)
        for source in (preparation.nodes, preparation.edges):
            if source.ignored:
                what = amount(len(source.ignored), "file is", "files are")
                progress.note(f"{what} no table and left out: {listed(source.ignored, 3)}")
        return cls(preparation, progress)

    def plan(self) -> list[tuple[str, str]]:
        """What there is and what it will take, in words."""
        return self.preparation.plan().facts()

    def run(self, force: bool = False) -> dict[str, Any]:
        """Make the store; what came of it, as data."""
        started = time.monotonic()
        store = self.preparation.run(force, self.progress.note)
        return _described(store) | {"seconds": time.monotonic() - started}


def _described(store: StoredGraph) -> dict[str, Any]:
    rows = store.manifest.source["edge_rows"]
    return {
        "store": str(store.path),
        "nodes": store.n_nodes,
        "edges": store.n_edges,
        "features": store.n_features,
        "feature_kind": None if store.manifest.features is None else store.manifest.features.kind,
        "parts": store.n_parts,
        "weighted": store.is_weighted,
        "bytes": sum(record.bytes for record in store.manifest.files.values()),
        "edge_rows": rows["rows"],
        "repeated_edges": rows["used"] - store.n_edges,
        "self_loops": rows["self_loops"],
        "zero_weights": rows["zero_weights"],
        "unknown_edges": rows["unknown"],
        "labels": 0 if store.manifest.labels is None else store.manifest.labels.n_labels,
        "classes": 0 if store.manifest.labels is None else store.manifest.labels.n_classes,
        "label": store.label_name,
        "left_out": store.manifest.source["left_out"],
        "fingerprint": store.fingerprint,
    }


def store_facts(result: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """What came of it, in words."""
    odd = {
        "given again or in the other direction": result["repeated_edges"],
        "from a node to itself": result["self_loops"],
        "of weight 0": result["zero_weights"],
        "of ids that no node has": result["unknown_edges"],
    }
    found = ", ".join(f"{count:,} {what}" for what, count in odd.items() if count)
    rows = f" of {result['edge_rows']:,} rows" + (f" ({found})" if found else "")
    features = "none"
    if result["features"]:
        features = amount(result["features"], f"{result['feature_kind']} column")
    facts = [
        ("nodes", f"{result['nodes']:,}"),
        ("edges", f"{result['edges']:,}{rows}"),
        ("features", features),
        ("parts", f"{result['parts']:,}, {size_in_words(result['bytes'])}"),
        ("seconds", f"{result['seconds']:.1f}"),
    ]
    if result["labels"]:
        classes = amount(result["classes"], "class", "classes")
        facts.insert(3, ("labels", f"{result['labels']:,} in {classes}, of {result['label']}"))
    return facts
