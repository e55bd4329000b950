"""How far answers depend on what else is asked, and on whether a model was saved.

A subset of nodes is predicted by other blocks of the same products, whose last digits differ: the
tolerances here are those of docs/limits.md. A model that was saved and read answers the same about
all nodes, to the bit.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import nodegp
from helpers import hide, random_graph, smooth_classes
from nodegp import GraphGPClassifier
from nodegp.inducing import Points
from nodegp.inference import Dual
from nodegp.kernels import RBF, Matern, Polynomial
from nodegp_paper.inference import Adam

GRAPH = random_graph(120, n_features=6, seed=5, p=0.03)
Y = hide(smooth_classes(GRAPH, 4), np.arange(0, 120, 3))
RECIPES = {
    "default": {},
    "mean": {"filter": "mean", "kernel": RBF()},
    "pagerank": {"filter": "pagerank"},
    "features": {"filter": "identity", "kernel": Matern(0.5)},
    "paper": {"recipe": "paper", "kernel": Polynomial(3, 1.0, 5.0, fixed=("variance",))},
}
ENGINES = {
    f"{type(engine).__name__}-{dtype}": engine
    for dtype in ("float64", "float32")
    for engine in (Dual(dtype=dtype, point_iter=3), Adam(max_iter=20, dtype=dtype))
}
# In units of a node's largest prior variance, of which labels leave a difference, or of its root.
TOLERANCE = {"float64": 1e-8, "float32": 2e-4}
PROBA = 1e-6  # the mean of a softmax is taken in single precision
SAVED = (PROBA, 1e-12, 1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("recipe", "engine"), list(product(RECIPES, ENGINES)))
@pytest.mark.parametrize("inducing", ["labelled", Points(20)], ids=["labelled", "points"])
def test_subsets_and_saved_models(recipe, engine, inducing, tmp_path):
    how = ENGINES[engine]
    model = GraphGPClassifier(engine=how, inducing=inducing, random_state=0, **RECIPES[recipe])
    model.fit(GRAPH, Y)
    model.save(tmp_path / "model", include_graph=True)

    def answers(model, nodes):
        return [model.predict_proba(nodes=nodes), *model.predict_latent(nodes=nodes)]

    everyone = np.arange(GRAPH.n_nodes)
    rng = np.random.default_rng(0)
    subsets = [rng.permutation(everyone)[:size] for size in (1, 2, 7, 60, 119)]
    loaded = nodegp.load(tmp_path / "model")
    of_all = answers(model, everyone)
    for same, before in zip(answers(loaded, everyone), of_all, strict=True):
        np.testing.assert_array_equal(same, before)
    other = nodegp.load(tmp_path / "model")
    variance = float(other.prior_.var(other.prior_.at(other.model_.domain(), everyone)).max())
    latent = TOLERANCE[how.dtype]
    atol = (max(latent, PROBA), latent * variance**0.5, latent * variance)
    for nodes in subsets:
        found = answers(model, nodes)
        # A fit leaves rows at hand, by which a subset is answered in another order of sums.
        for same, before, within in zip(answers(loaded, nodes), found, SAVED, strict=True):
            np.testing.assert_allclose(same, before, rtol=0, atol=within)
        unasked = answers(nodegp.load(tmp_path / "model"), nodes)
        for values in (found, unasked):
            for some, whole, within in zip(values, of_all, atol, strict=True):
                np.testing.assert_allclose(some, whole[nodes], rtol=0, atol=within)
