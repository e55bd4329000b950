"""What came in, in a short table: to be read before a fit, by people or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from nodegp.graph import Graph
from nodegp.io.encoder import Encoder
from nodegp.io.words import amount, listed

__all__ = ["MANY_CLASSES", "Summary", "class_remarks", "no_features_of", "summarise"]

MANY_CLASSES = 20  # classes: most data sets have fewer
_NO_LABEL = frozenset(
    ["na", "n/a", "nan", "none", "null", "-1", "?", "-", "unknown", "unlabelled", "unlabeled"]
)


@dataclass(frozen=True)
class Summary:
    """Counts of everything that a user should know of before a model is fitted."""

    nodes: int
    edges: int
    features: int
    sources: list[str]
    isolated_nodes: int
    components: int
    largest_component: int
    empty_rows: int
    classes: dict[Any, int] | None
    dropped_columns: dict[str, str]
    missing_values: dict[str, int]
    left_out: dict[str, str]
    identifiers: dict[str, str]
    odd_cells: dict[str, str] = field(default_factory=dict)
    unknown_labels: int = 0
    unknown_edges: int = 0
    repeated_edges: int = 0
    self_loops: int = 0
    zero_weights: int = 0

    @property
    def labelled(self) -> int:
        return sum((self.classes or {}).values())

    def rows(self) -> list[tuple[str, str]]:
        """Lines to print: what, and how much. Oddities are left out where there are none."""
        share = 100 * self.labelled / max(self.nodes, 1)
        commonest = sorted((self.classes or {}).items(), key=lambda item: -item[1])
        largest = f" (largest: {self.largest_component:,} nodes)" if self.components > 1 else ""
        lines = [
            ("nodes", f"{self.nodes:,}"),
            ("edges", f"{self.edges:,}"),
            ("features", f"{self.features:,}" + "".join(f"; {s}" for s in self.sources)),
            ("classes", listed([f"{name} {count:,}" for name, count in commonest])),
            ("labelled", f"{self.labelled:,} ({share:.1f} % of the nodes)" if commonest else ""),
            ("components", f"{self.components:,}{largest}"),
        ]
        oddities = [
            ("isolated nodes", self.isolated_nodes, ""),
            ("repeated edges", self.repeated_edges, " (either way round), counted once"),
            ("self-loops", self.self_loops, ", left out"),
            ("edges of weight 0", self.zero_weights, ", left out"),
            ("edges to unknown ids", self.unknown_edges, ", left out"),
            ("labels of unknown ids", self.unknown_labels, ", left out"),
            ("empty feature rows", self.empty_rows, ""),
        ]
        lines += [(what, f"{count:,}{remark}") for what, count, remark in oddities if count]
        gaps = listed([f"{name} {count:,}" for name, count in self.missing_values.items()])
        lines.append(("missing numbers", gaps and f"{gaps}; set to the mean and marked"))
        left_out = self.identifiers | self.left_out
        for what, columns in (("dropped", self.dropped_columns), ("left out", left_out)):
            reasons = listed([f"{name} ({why})" for name, why in columns.items()])
            lines.append((f"columns {what}", reasons))
        return [(what, text) for what, text in lines if text]

    def remarks(self) -> list[str]:
        """What looks like a mistake, or like too little to learn from."""
        remarks = _about_names(self.classes or {})
        texts = [name for name, why in self.left_out.items() if why == "text"]
        if not self.features and texts:
            remarks.append(
                f"there are no features, so the model uses the edges alone; there is text in "
                f"{listed(texts)}: --text {texts[0]} (in Python text=) makes features of its words"
            )
        remarks += [
            f"{name} would be a column of numbers except for {cell}, and is "
            f"{'left out' if name in self.left_out else 'read as categories'}; correct the cell, "
            "or leave it empty"
            for name, cell in self.odd_cells.items()
        ]
        if self.identifiers:
            remarks.append(no_features_of(self.identifiers))
        return remarks + _about_counts(self.classes or {})

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; classes are a list, since their names may be numbers."""
        data = asdict(self) | {"labelled": self.labelled, "remarks": self.remarks()}
        if self.classes is not None:
            data["classes"] = [{"label": k, "count": v} for k, v in self.classes.items()]
        return data


def class_remarks(classes: Mapping[Any, int]) -> list[str]:
    """What looks like a mistake in labels, counted by class, or like too few of them."""
    return _about_names(classes) + _about_counts(classes)


def _about_names(classes: Mapping[Any, int]) -> list[str]:
    counts = {str(name): count for name, count in classes.items()}
    remarks = [
        f"{name!r} is read as a class, with {amount(count, 'label')}; leave the cell empty if the "
        "class is unknown"
        for name, count in counts.items()
        if name.strip().lower() in _NO_LABEL
    ]
    alike = Counter(name.casefold() for name in counts)
    return remarks + [
        f"class {name!r} differs from another only in upper and lower case"
        for name in sorted(counts)
        if alike[name.casefold()] > 1
    ]


def _about_counts(classes: Mapping[Any, int]) -> list[str]:
    n_labels = sum(classes.values())
    lone = [str(name) for name, count in classes.items() if count < 2]
    if len(classes) > MANY_CLASSES and len(classes) > n_labels / 5:
        return [
            f"there are {len(classes):,} classes among {n_labels:,} labels; is this the right "
            "column?"
        ]
    if lone:
        return [f"there is only one label of {listed(lone)}: its accuracy cannot be estimated"]
    return []


def no_features_of(identifiers: Mapping[str, str]) -> str:
    """That columns name their rows, in words, and how to take them in all the same."""
    look = "looks like an id and is" if len(identifiers) == 1 else "look like ids and are"
    return (
        f"{listed(list(identifiers))} {look} not used as a feature; to use such columns, list all "
        "features with --features (in Python features=)"
    )


def summarise(graph: Graph, encoder: Encoder, findings: Mapping[str, Any]) -> Summary:
    """Look at a graph, and add what was found on the way to it."""
    # In a symmetric matrix the strong components are all components, and cost no transpose.
    components, member = connected_components(graph.adjacency, connection="strong")
    return Summary(
        **findings,
        nodes=graph.n_nodes,
        edges=graph.n_edges,
        features=graph.n_features,
        sources=encoder.describe(),
        isolated_nodes=int(np.count_nonzero(np.diff(graph.adjacency.indptr) == 0)),
        components=int(components),
        largest_component=int(np.bincount(member).max()),
        empty_rows=_empty_rows(graph.features) if encoder.zero_means_nothing() else 0,
    )


def _empty_rows(features: Any) -> int:
    if features is None:
        return 0
    # Few rows have a sum of zero: only these are looked at entry by entry.
    maybe = np.flatnonzero(features @ np.ones(features.shape[1], features.dtype) == 0)
    return int(np.count_nonzero(abs(features[maybe]).sum(axis=1) == 0))
