"""Skip-gram embeddings of the nodes on walks, by gensim: what DeepWalk and node2vec share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nodegp.extras import to_install
from nodegp_paper.baselines.base import check_number

__all__ = ["check_parameters", "skip_gram"]

_LONGEST = 10_000  # gensim passes over whatever a sentence has beyond that
_BLOCK = 10_000  # walks at a time that become lists


def check_parameters(model: Any) -> None:
    """Refuse what is wrong with the parameters that all skip-gram methods have."""
    check_number("walk_length", model.walk_length, 1, _LONGEST + 1, whole=True)
    check_number("window", model.window, 1, whole=True)
    check_number("size", model.size, 1, whole=True)
    check_number("epochs", model.epochs, 1, whole=True)


def skip_gram(
    walks: np.ndarray,
    n_nodes: int,
    size: int,
    window: int,
    epochs: int,
    rng: np.random.Generator,
    negatives: int = 0,
) -> np.ndarray:
    """An embedding of every node, (N, size), that predicts the nodes around it on the walks.

    The output layer is a hierarchical softmax over a Huffman tree of the nodes, or with
    ``negatives`` above zero that many nodes of noise. Everything else is as word2vec has it: each
    window is as wide as a draw from 1 to ``window``, and the learning rate falls from 0.025 to
    0.0001. One thread, or else the result would depend on timing.
    """
    try:
        from gensim.models import Word2Vec
    except ImportError as missing:
        hint = to_install("baselines")
        raise ImportError(f"DeepWalk and node2vec need gensim: {hint}") from missing
    model = Word2Vec(
        vector_size=size,
        window=window,
        sg=1,
        hs=0 if negatives else 1,
        negative=negatives,
        min_count=0,
        sample=0,  # no node is left out for being visited often
        workers=1,
        seed=int(rng.integers(2**31)),
        hashfxn=_position,
    )
    # A node that no walk comes by needs an embedding too: the random one it starts with.
    visits = np.maximum(np.bincount(walks.ravel(), minlength=n_nodes), 1)
    model.build_vocab_from_freq(dict(enumerate(visits.tolist())), corpus_count=len(walks))
    if len(walks):
        sentences = _Sentences(walks)
        model.train(sentences, total_examples=len(walks), total_words=walks.size, epochs=epochs)
    row = [model.wv.key_to_index[node] for node in range(n_nodes)]
    return model.wv.vectors[row].astype(np.float64)


class _Sentences:
    """Walks as gensim wants them: lists, as often as it asks."""

    def __init__(self, walks: np.ndarray):
        self._walks = walks

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, len(self._walks), _BLOCK):
            yield from self._walks[start : start + _BLOCK].tolist()


def _position(node: int) -> int:
    """In place of ``hash``, which may differ from one process to the next."""
    return int(node)
