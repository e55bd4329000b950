"""DeepWalk, of Perozzi, Al-Rfou and Skiena (KDD 2014).

*DeepWalk: Online Learning of Social Representations*: nodes as words, random walks as sentences.
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

__all__ = ["DeepWalk"]

_WALKS, _FEWEST = 80, 10
# Steps of all walks together, unless walks_per_node is given: about a minute and a half of a core.
_STEPS = 12_000_000


class DeepWalk(Baseline):
    """Skip-gram embeddings of the nodes on random walks, and logistic regression on top.

    The embeddings never see a label and the features are not used. The defaults are those of the
    paper's experiments (Section 6): 80 walks of 40 nodes from each node, windows of 10, 128
    dimensions, hierarchical softmax, one pass over the walks, logistic regression one against the
    rest with an L2 penalty, at scikit-learn's ``C`` as in the authors' example,
    https://github.com/phanein/deepwalk.

    Our assumptions, where the paper says nothing: steps follow the weights of the edges; a node
    without neighbours keeps the random embedding that it starts with.

    Parameters
    ----------
    walks_per_node : int or None
        None is 80, or on larger graphs as many as make 12 million steps, but no fewer than 10: so
        the time of a fit hardly grows up to 30,000 nodes. Cora and Citeseer get their 80 and
        Pubmed gets 15. On random splits of Cora and Citeseer outside the public test nodes, 20
        walks were as good as 80.
    walk_length : int
    window : int
        The furthest that two nodes of a walk can be apart to predict each other.
    size : int
        Dimensions of the embeddings.
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

    name = "DeepWalk"

    def __init__(
        self,
        walks_per_node: int | None = None,
        walk_length: int = 40,
        window: int = 10,
        size: int = 128,
        epochs: int = 1,
        C: float = 1.0,
        unlabelled: Any = -1,
        random_state: Any = None,
    ):
        self.walks_per_node = walks_per_node
        self.walk_length = walk_length
        self.window = window
        self.size = size
        self.epochs = epochs
        self.C = C
        self.unlabelled = unlabelled
        self.random_state = random_state

    def _learn(self, graph: Graph, labels: Labels, validation: Labels | None) -> np.ndarray:
        check_parameters(self)
        if self.walks_per_node is not None:
            check_number("walks_per_node", self.walks_per_node, 1, whole=True)
        classifier = Classifier(len(self.classes_), self.C, one_vs_rest=True)
        rng = generator(self.random_state)
        walks = walks_from_all(graph, self._walks_on(graph), self.walk_length, rng)
        self.embeddings_ = skip_gram(walks, graph.n_nodes, self.size, self.window, self.epochs, rng)
        classifier.fit(self.embeddings_[labels.nodes], labels.targets)
        return classifier.proba(self.embeddings_)

    def _walks_on(self, graph: Graph) -> int:
        if self.walks_per_node is not None:
            return self.walks_per_node
        return int(np.clip(_STEPS // (self.walk_length * graph.n_nodes), _FEWEST, _WALKS))
