"""The numbers printed in the paper: facts to compare with, never used to choose anything.

Ng, Colombo and Silva, "Bayesian Semi-supervised Learning with Graph Gaussian Processes",
NeurIPS 2018, Tables 1-3.
"""

from __future__ import annotations

__all__ = ["ACCURACY", "ACTIVE_DATASETS", "ALC", "DATA", "DATASETS"]

DATASETS = ("cora", "citeseer", "pubmed")
ACTIVE_DATASETS = ("cora", "citeseer")

# Table 1: test accuracy in per cent, on DATASETS.
ACCURACY: dict[str, tuple[float | None, ...]] = {
    "GGP": (80.9, 69.7, 77.1),
    "GGP-X": (84.7, 75.6, 82.4),
    "GCN": (81.5, 70.3, 79.0),
    "DCNN": (76.8, None, 73.0),
    "MoNet": (81.7, None, 78.8),
    "DeepWalk": (67.2, 43.2, 65.3),
    "Planetoid": (75.7, 64.7, 77.2),
    "ICA": (75.1, 69.1, 73.9),
    "LP": (68.0, 45.3, 63.0),
    "SemiEmb": (59.0, 59.6, 71.1),
    "ManiReg": (59.5, 60.1, 70.7),
}

# Table 2: nodes, edges, classes, features, label rate.
DATA = {
    "cora": (2708, 5429, 7, 1433, 0.052),
    "citeseer": (3327, 4732, 6, 3703, 0.036),
    "pubmed": (19717, 44338, 3, 500, 0.003),
}

# Table 3: area under the learning curve and its error, on ACTIVE_DATASETS.
ALC: dict[str, tuple[tuple[float, float], ...]] = {
    "SOPT-GGP": ((0.733, 0.001), (0.678, 0.002)),
    "SOPT-GCN": ((0.706, 0.001), (0.675, 0.002)),
    "SOPT-LP": ((0.672, 0.001), (0.638, 0.001)),
    "RAND-GGP": ((0.575, 0.007), (0.557, 0.008)),
    "RAND-GCN": ((0.584, 0.011), (0.533, 0.008)),
    "RAND-LP": ((0.424, 0.020), (0.490, 0.011)),
}
