"""Made-up papers that cite each other, with titles to be read: an example for newcomers.

Nothing in it was ever written by anyone. A title is put together from the words of a topic and,
here and there, of another, and most citations stay within a topic. So neither tells all, and an
expert (whoever reads the titles) may be wrong at times, as in life.
"""

from __future__ import annotations

import numpy as np

from nodegp.seeds import generator

__all__ = ["make_papers"]

_N_PAPERS, _N_LABELLED = 300, 40
_YEARS = 1996, 2021
_STRAY = 0.1  # share of the parts of a title that may come from any topic
_WITHIN = 0.6  # share of the citations that are sure to stay within the topic
_MOST_CITED = 5

_TITLES = (
    "{manner} {task} of {objects}",
    "{manner} {task} with {tools}",
    "{task} of {objects} with {tools}",
    "{tools} for {objects}",
    "{tools} and {task} of {objects}",
    "{tools} for {manner} {task}",
    "what {tools} tell about {objects}",
    "{manner} {task} from few examples",
)
_MANNERS = (
    *("Bayesian", "fast", "robust", "adaptive", "hierarchical", "semi-supervised", "scalable"),
    *("online", "approximate", "distributed", "interpretable", "sparse", "probabilistic"),
)
# The same words turn up in several topics: networks, random, models, sequences, recognition.
_TOPICS: dict[str, dict[str, tuple[str, ...]]] = {
    "statistics": {
        "task": (
            *("estimation", "variable selection", "hypothesis testing", "regression"),
            *("posterior inference", "model comparison", "change point detection"),
        ),
        "objects": (
            *("mixture models", "time series", "censored data", "random effects", "count data"),
            *("sparse graph models", "noisy measurements", "clinical trials", "missing data"),
        ),
        "tools": (
            *("Gibbs samplers", "bootstrap samples", "Gaussian processes", "shrinkage priors"),
            *("variational bounds", "likelihood ratios", "hidden Markov models"),
        ),
    },
    "networks": {
        "task": (
            *("community detection", "link prediction", "node ranking", "spectral clustering"),
            *("sampling", "anomaly detection", "partitioning"),
        ),
        "objects": (
            *("random graphs", "social networks", "road networks", "citation graphs"),
            *("sparse graphs", "gene networks", "dynamic networks", "power grids"),
        ),
        "tools": (
            *("random walks", "block models", "message passing schemes", "graph kernels"),
            *("matrix factorisations", "shortest paths", "spectral embeddings"),
        ),
    },
    "vision": {
        "task": (
            *("segmentation", "object recognition", "denoising", "depth estimation", "tracking"),
            *("change detection", "clustering"),
        ),
        "objects": (
            *("medical images", "street scenes", "video sequences", "satellite images", "faces"),
            *("noisy images", "point clouds", "handwritten digits"),
        ),
        "tools": (
            *("convolutional networks", "random fields", "wavelets", "optical flow fields"),
            *("shape priors", "local descriptors", "image kernels"),
        ),
    },
    "language": {
        "task": (
            *("parsing", "machine translation", "speech recognition", "summarisation"),
            *("topic detection", "tagging", "disambiguation"),
        ),
        "objects": (
            *("spoken dialogues", "legal documents", "short messages", "parallel texts"),
            *("word sequences", "news streams", "rare languages", "medical records"),
        ),
        "tools": (
            *("word embeddings", "language models", "hidden Markov models", "attention networks"),
            *("context-free grammars", "topic models", "string kernels"),
        ),
    },
}


def make_papers(seed: int = 0) -> dict[str, dict[str, list]]:
    """Three tables by name, each as columns: ``papers``, ``cites`` and ``answers``.

    Papers have an id, a title, a month and a topic, None for all but 40 of the 300; ``answers`` has
    the topics of all of them. The same seed makes the same tables.
    """
    rng = generator(seed)
    topics = rng.choice(list(_TOPICS), _N_PAPERS)
    titles: dict[str, None] = {}
    for topic in topics:
        before = len(titles)
        while len(titles) == before:  # no title twice
            titles[_title(rng, topic)] = None
    citing, cited = _citations(rng, topics)
    papers = np.array([f"p{number + 1}" for number in range(_N_PAPERS)])
    months = (np.linspace(*_YEARS, _N_PAPERS) * 12).astype(int)
    labelled = rng.permutation(_N_PAPERS) < _N_LABELLED
    return {
        "papers": {
            "paper": papers.tolist(),
            "title": list(titles),
            "published": [f"{m // 12}-{m % 12 + 1:02d}" for m in months],
            "topic": [
                t if known else None for t, known in zip(topics.tolist(), labelled, strict=True)
            ],
        },
        "cites": {"citing": papers[citing].tolist(), "cited": papers[cited].tolist()},
        "answers": {"paper": papers.tolist(), "topic": topics.tolist()},
    }


def _title(rng: np.random.Generator, topic: str) -> str:
    parts = {"manner": rng.choice(_MANNERS)}
    for part in ("task", "objects", "tools"):
        source = rng.choice(list(_TOPICS)) if rng.random() < _STRAY else topic
        parts[part] = rng.choice(_TOPICS[source][part])
    title = rng.choice(_TITLES).format(**parts)
    return title[0].upper() + title[1:]


def _citations(rng: np.random.Generator, topics: np.ndarray) -> np.ndarray:
    """Who cites whom, in two rows: some papers of before, most of them of the same topic."""
    pairs: set[tuple[int, int]] = set()
    for paper in range(1, len(topics)):
        same = np.flatnonzero(topics[:paper] == topics[paper])
        for _ in range(rng.integers(1, _MOST_CITED + 1)):
            within = len(same) and rng.random() < _WITHIN
            pairs.add((paper, int(rng.choice(same) if within else rng.integers(paper))))
    return np.array(sorted(pairs)).T
