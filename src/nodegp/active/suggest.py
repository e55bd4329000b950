"""One question, without the loop: which nodes to ask about now."""

from __future__ import annotations

from typing import Any

import numpy as np

from nodegp.active.acquisition import Acquisition, Choice, Degree, Random, Situation
from nodegp.active.bald import BALD
from nodegp.active.eer import EER
from nodegp.active.gpeer import GPEER
from nodegp.active.gpvopt import GPVOPT
from nodegp.active.hybrid import Hybrid
from nodegp.active.s2 import S2
from nodegp.active.sopt import SOPT
from nodegp.active.uncertainty import Entropy, Margin
from nodegp.active.vopt import VOPT
from nodegp.graph import Graph
from nodegp.labels import as_labels, is_labelled
from nodegp.seeds import generator

STRATEGIES: dict[str, type[Acquisition]] = {
    kind.name: kind
    for kind in (SOPT, VOPT, Hybrid, GPVOPT, GPEER, S2, Random, Degree, Entropy, Margin, BALD, EER)
}


def suggest(
    graph: Graph,
    n: int = 1,
    strategy: str | Acquisition = "sopt",
    *,
    y: Any = None,
    model: Any = None,
    candidates: Any = None,
    unlabelled: Any = -1,
    random_state: Any = None,
) -> Choice:
    """The ``n`` nodes to ask about next, with the number that each was chosen by.

    Parameters
    ----------
    graph : Graph
    n : int
        How many; fewer are given if there are fewer.
    strategy : one of ``STRATEGIES``, or an Acquisition
        hybrid, gp-vopt, gp-eer, entropy, margin and bald need ``model``, s2 and eer need ``y``;
        where these are missing sopt chooses, and the choice's ``note`` says so.
    y : one entry per node, optional
        The labels so far; ``unlabelled``, None or NaN where there is none.
    model : fitted model, optional
    candidates : node numbers, ids that are text, or a mask, optional
        Which nodes may be asked about; all without a label by default, and never one with.
    unlabelled : default -1
    random_state : int, Generator or RandomState, optional
    """
    if isinstance(strategy, str):
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {list(STRATEGIES)}, got {strategy!r}")
        strategy = STRATEGIES[strategy]()
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    labelled = np.zeros(graph.n_nodes, dtype=bool)
    if y is not None:
        y = np.asarray(as_labels(y))
        if y.shape != (graph.n_nodes,):
            raise ValueError(f"y has shape {y.shape} for {graph.n_nodes} nodes; give one per node")
        labelled = is_labelled(y, unlabelled)
    asked = np.zeros(graph.n_nodes, dtype=bool)
    asked[graph.numbers(candidates)] = True
    rng = generator(random_state)
    situation = Situation(graph, labelled, asked & ~labelled, model, rng, y)
    return strategy.explain_choice(situation, n)
