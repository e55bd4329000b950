"""A recipe is a value: checked when it is made, printed as it is written, passed and saved."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import nodegp
from helpers import hide, random_graph, smooth_classes
from nodegp import GraphGPClassifier, GraphGPRegressor, Preprocessing, Recipe, Table
from nodegp.component import from_dict
from nodegp.filters import Identity, NeighbourMean, PageRank, SumOfFilters
from nodegp.kernels import RBF, Cosine, Linear
from nodegp.likelihoods import Gaussian, RobustMax, Softmax
from nodegp.model import paper_recipe

GRAPH = random_graph(40, p=0.15)
Y = hide(smooth_classes(GRAPH), np.arange(0, 40, 2))

RECIPES = {
    "filter alone": Recipe(PageRank(0.1)),
    "all parts": Recipe(
        NeighbourMean(),
        RBF(2.0),
        RobustMax(),
        Preprocessing("raw", center=False),
        False,
        0.5,
        "own",
    ),
    "a sum": Recipe(SumOfFilters((Identity(), PageRank(0.2))), (Cosine(), Linear())),
    "the paper's": paper_recipe(),
}
each_recipe = pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))


@each_recipe
def test_it_survives_text_pickle_and_clone(recipe):
    assert from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert clone(GraphGPClassifier(recipe)).recipe == recipe


@each_recipe
def test_it_is_printed_as_one_would_write_it(recipe):
    names = vars(nodegp.filters) | vars(nodegp.kernels) | vars(nodegp.likelihoods)
    names |= {"Recipe": Recipe, "Preprocessing": Preprocessing}
    assert eval(str(recipe), dict(names)) == recipe
    assert "fixed=()" not in repr(GraphGPClassifier(recipe))


@each_recipe
def test_what_was_used_can_be_used_again(recipe, tmp_path):
    model = GraphGPClassifier(recipe, random_state=0).fit(GRAPH, Y)
    assert model.recipe_.name == recipe.name
    assert model.recipe_.kernel is not None
    again = GraphGPClassifier(model.recipe_, random_state=0).fit(GRAPH, Y)
    assert (again.predict() == model.predict()).mean() > 0.8  # learnt further, from there
    model.save(tmp_path / "model", include_graph=True)
    assert nodegp.load(tmp_path / "model").recipe_ == model.recipe_


def test_parts_take_the_place_of_its_own_and_change_its_name():
    model = GraphGPClassifier("paper", filter="pagerank", likelihood="softmax").fit(GRAPH, Y)
    recipe = model.recipe_
    assert isinstance(recipe.filter, PageRank)
    assert isinstance(recipe.likelihood, Softmax)
    assert recipe.preprocessing == paper_recipe().preprocessing
    assert not recipe.calibrate
    assert recipe.name == "custom"
    assert GraphGPClassifier("paper").fit(GRAPH, Y).recipe_.name == "paper"


def test_a_list_of_kernels_is_a_tuple_of_them():
    filter = SumOfFilters((Identity(), PageRank(0.2)))
    assert Recipe(filter, [Cosine(), Linear()]) == Recipe(filter, (Cosine(), Linear()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"filter": "pagerank"}, "filter must be a Filter object, got 'pagerank'"),
        ({"kernel": "rbf"}, "kernel must be a Kernel object, several or None, got 'rbf'"),
        ({"kernel": (Cosine(), 3)}, "kernel must be a Kernel object"),
        ({"likelihood": RBF()}, "likelihood must be a Likelihood object"),
        ({"preprocessing": "raw"}, "preprocessing must be a Preprocessing object, got 'raw'"),
        ({"calibrate": "off"}, "calibrate must be True or False, got 'off'"),
        ({"hyperprior_std": "1"}, "hyperprior_std must be positive or None, got '1'"),
        ({"hyperprior_std": 0.0}, "hyperprior_std must be positive or None, got 0.0"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Recipe(**({"filter": PageRank()} | settings))


def test_the_default_kernel_is_held_where_it_starts():
    """Few labels would send it anywhere: given in a recipe or beside it, it is the same model."""
    few = hide(smooth_classes(GRAPH), np.arange(0, 40, 8))
    beside, inside = (
        GraphGPClassifier(filter=PageRank(0.1)),
        GraphGPClassifier(Recipe(PageRank(0.1))),
    )
    np.testing.assert_array_equal(
        beside.fit(GRAPH, few).predict_proba(), inside.fit(GRAPH, few).predict_proba()
    )


def test_a_regressor_takes_recipes_of_its_own_kind():
    targets = np.where(np.arange(40) % 2, np.nan, GRAPH.features[:, 0])
    recipe = Recipe(PageRank(0.1), RBF(), Gaussian())
    model = GraphGPRegressor(recipe).fit(GRAPH, targets)
    assert not model.recipe_.calibrate
    with pytest.raises(ValueError, match=r"for classes: use .*likelihood=Gaussian\(\)"):
        GraphGPRegressor(Recipe(PageRank(0.1))).fit(GRAPH, targets)
    with pytest.raises(ValueError, match="filter must be one of"):
        GraphGPRegressor(filter="nonsense").fit(GRAPH, targets)
    by_name, default = (
        GraphGPRegressor(**settings).fit(GRAPH, targets) for settings in ({"filter": "auto"}, {})
    )
    assert by_name.recipe_ == default.recipe_
    assert by_name.recipe_.name == "auto"


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_is_an_input_for_scikit_learn():
    X, y = GRAPH.features, smooth_classes(GRAPH)
    table = Table(X, n_neighbors=3)
    assert len(table) == 40
    assert table[np.array([3, 5])].n_neighbors == 3
    assert "40 rows" in repr(table)
    scores = cross_val_score(GraphGPClassifier(filter="mean"), table, y, cv=2)
    assert scores.shape == (2,)
    model = GraphGPClassifier(filter="mean").fit(table, y)
    with pytest.raises(ValueError, match="its 3 nearest; this Table says 7"):
        model.predict(Table(X, n_neighbors=7))
    np.testing.assert_array_equal(model.predict(X), model.predict(table))


@pytest.mark.parametrize("bad", [None, GRAPH])
def test_a_table_is_of_rows(bad):
    with pytest.raises(TypeError, match="rows of features"):
        Table(bad)
