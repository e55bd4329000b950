"""node2vec, of Grover and Leskovec (KDD 2016).

*node2vec: Scalable Feature Learning for Networks*: DeepWalk whose walks remember one step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nodegp.graph import Graph
from nodegp.seeds import generator
from nodegp_paper.baselines.base import Baseline, Labels, check_number
from nodegp_paper.baselines.logistic import Classifier
from nodegp_paper.baselines.skipgram import check_parameters, skip_gram
from nodegp_paper.baselines.walks import walks_from_all

__all__ = ["Node2Vec"]


class Node2Vec(Baseline):
    """Skip-gram embeddings of the nodes on second-order walks, and logistic regression on top.

    The embeddings never see a label and the features are not used. The defaults are the paper's
    (Section 4): 10 walks of 80 nodes from each node, windows of 10, 128 dimensions, one pass
    over the walks, logistic regression one against the rest with an L2 penalty. Negative sampling
    is the paper's too (Section 3); five negatives, and p = q = 1, are the defaults of the
    authors' code, https://github.com/aditya-grover/node2vec. The paper tunes p and q over
    {0.25, 0.5, 1, 2, 4} on labels set aside; at one, the walks are those of DeepWalk.

    Our assumption: a node without neighbours keeps the random embedding that it starts with.

    Parameters
    ----------
    p : float
        A small one makes a walk turn back often, a large one seldom.
    q : float
        A small one makes a walk leave the neighbourhood it is in, a large one stay.
    walks_per_node, walk_length : int
    window : int
        The furthest that two nodes of a walk can be apart to predict each other.
    size : int
        Dimensions of the embeddings.
    negatives : int
        Nodes of noise for each pair of nodes.
    epochs : int
        Passes over the walks.
    C : float
        The inverse strength of the L2 penalty on the classifier.
    unlabelled : default -1
        The value in y that means no label; None and NaN mean it too.
    random_state : int, Generator or RandomState, optional

    Attributes
    ----------
    embeddings_ : (N, size)
    """

    name = "node2vec"

    def __init__(
        self,
        p: float = 1.0,
        q: float = 1.0,
        walks_per_node: int = 10,
        walk_length: int = 80,
        window: int = 10,
        size: int = 128,
        negatives: int = 5,
        epochs: int = 1,
        C: float = 1.0,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.p = p
        self.q = q
        self.walks_per_node = walks_per_node
        self.walk_length = walk_length
        self.window = window
        self.size = size
        self.negatives = negatives
        self.epochs = epochs
        self.C = C
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        check_parameters(self)
        check_number("walks_per_node", self.walks_per_node, 1, whole=True)
        check_number("p", self.p, 1e-6, 1e6)
        check_number("q", self.q, 1e-6, 1e6)
        check_number("negatives", self.negatives, 1, whole=True)
        classifier = Classifier(len(self.classes_), self.C, one_vs_rest=True)
        rng = generator(self.random_state)
        walks = walks_from_all(graph, self.walks_per_node, self.walk_length, rng, self.p, self.q)
        self.embeddings_ = skip_gram(
            walks, graph.n_nodes, self.size, self.window, self.epochs, rng, self.negatives
        )
        classifier.fit(self.embeddings_[labels.nodes], labels.targets)
        return classifier.proba(self.embeddings_)
