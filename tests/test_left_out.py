"""Labels left out in groups: the posterior without them, as a fit without them has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import (
    FIXED_LIKELIHOODS,
    FIXED_RBF,
    hide,
    one_hop_prior,
    quiet,
    random_graph,
    raw_domain,
    toy_problem,
)
from nodegp import Graph, GraphGPClassifier
from nodegp.budget import budget
from nodegp.gains import OwnClassGains, SiteGains
from nodegp.inducing import Labelled, Points
from nodegp.inference import Dual, leave_groups_out
from nodegp.likelihoods import Softmax
from nodegp.metrics import log_loss
from nodegp.model.calibration import fit_temperatures
from nodegp.model.groups import STAY, dealt_groups, growth
from nodegp.posterior import Marginals, leave_one_out
from nodegp_paper.datasets import synthetic

GRAPH = random_graph(30, seed=6)
NODES = np.sort(np.random.default_rng(6).choice(30, 15, replace=False))
# Groups of one, two, three and four, and two labels that stay.
GROUPS = np.array([0, 1, 1, 2, 2, 2, 3, 3, 3, 3, STAY, STAY, 4, 4, 0])
TIGHT = Dual(tol=1e-8, max_steps=2000)
INDUCING = {"labelled": Labelled(), "points": Points(8, optimise=False)}

each_inducing = pytest.mark.parametrize("inducing", list(INDUCING))


def fit_of(name, inducing, nodes=NODES, dtype=torch.float64, engine=TIGHT):
    problem = toy_problem(
        FIXED_LIKELIHOODS[name], INDUCING[inducing], graph=GRAPH, nodes=nodes, dtype=dtype
    )
    return engine.fit(problem, quiet)


def refits(name, inducing, groups):
    """By fitting again without each group."""
    whole = fit_of(name, inducing)
    mean, var = (part.clone() for part in whole.label_marginals)
    for group in set(groups[groups >= 0].tolist()):
        inside = np.flatnonzero(groups == group)
        without = fit_of(name, inducing, np.delete(NODES, inside))
        found = without.posterior.marginals(one_hop_prior().at(raw_domain(GRAPH), NODES[inside]))
        mean[inside], var[inside] = found.mean, found.var
    return Marginals(mean, var)


@each_inducing
def test_groups_left_out_are_exact_for_gaussian(inducing):
    found = leave_groups_out(fit_of("gaussian", inducing), GROUPS)
    for a, b in zip(found, refits("gaussian", inducing, GROUPS), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@each_inducing
@pytest.mark.parametrize("name", ["softmax", "bernoulli"])
def test_groups_left_out_are_close_to_refits(name, inducing):
    """Without the group the other sites would move a little, which the division leaves out."""
    likelihood, whole = FIXED_LIKELIHOODS[name], fit_of(name, inducing)
    pairs = leave_groups_out(whole, GROUPS), refits(name, inducing, GROUPS)
    divided, again = (likelihood.predict(*each) for each in pairs)
    kept = likelihood.predict(*whole.label_marginals)
    left = GROUPS >= 0
    error, effect = (divided - again).abs()[left], (kept - again).abs()[left]
    assert error.max() < 0.06
    assert error.mean() < 0.25 * effect.mean()


@each_inducing
@pytest.mark.parametrize("name", ["gaussian", "bernoulli", "softmax"])
def test_groups_of_one_are_leave_one_out(name, inducing):
    fit = fit_of(name, inducing)
    alone = leave_one_out(fit.label_marginals, fit.inducing_variance, fit.cavity_share, fit.alpha)
    for a, b in zip(leave_groups_out(fit, np.arange(15)[::-1].copy()), alone, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@each_inducing
def test_those_that_stay_are_as_they_were_and_nothing_is_changed(inducing):
    fit = fit_of("softmax", inducing)
    before = [part.clone() for part in fit.label_marginals]
    found = leave_groups_out(fit, GROUPS)
    for part, same, original in zip(found, before, fit.label_marginals, strict=True):
        assert torch.equal(part[GROUPS < 0], same[GROUPS < 0])
        assert not torch.isclose(part[GROUPS >= 0], same[GROUPS >= 0]).any()
        assert torch.equal(original, same)
    for part, same in zip(leave_groups_out(fit, np.full(15, STAY)), before, strict=True):
        assert torch.equal(part, same)


@each_inducing
def test_all_in_one_group_leave_the_prior(inducing):
    fit = fit_of("softmax", inducing)
    found = leave_groups_out(fit, np.zeros(15, dtype=int))
    prior = one_hop_prior().at(raw_domain(GRAPH), NODES)
    variances = one_hop_prior().var(prior)
    torch.testing.assert_close(found.mean, torch.zeros_like(found.mean), atol=1e-7, rtol=0)
    torch.testing.assert_close(found.var, variances[:, None].expand(-1, 3), atol=1e-6, rtol=1e-6)


@given(seed=st.integers(0, 10_000), n_groups=st.integers(1, 6))
def test_a_label_less_is_a_variance_more(seed, n_groups):
    """Log-concave sites add precision: the more are left out, the less is known."""
    fit = fit_of("softmax", "labelled")
    rng = np.random.default_rng(seed)
    groups = rng.integers(-1, n_groups, 15)
    found = leave_groups_out(fit, groups)
    alone = leave_groups_out(fit, np.arange(15))
    out = groups >= 0
    assert (found.var[out] >= alone.var[out] - 1e-9).all()
    assert (alone.var >= fit.label_marginals.var - 1e-9).all()
    names = rng.permutation(n_groups)
    renamed = leave_groups_out(fit, np.where(out, names[groups], STAY))
    for a, b in zip(found, renamed, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@each_inducing
def test_single_precision_is_close(inducing):
    single, double = (
        leave_groups_out(fit_of("softmax", inducing, dtype=dtype, engine=Dual()), GROUPS)
        for dtype in (torch.float32, torch.float64)
    )
    for a, b in zip(single, double, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=5e-3, atol=5e-3)


# --- hundreds of classes: latents in blocks ------------------------------------------------------


def many_classes(inducing):
    """Each fit with the groups that were left out of it."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 12
    graph = Graph(np.zeros((60, 60)), rng.normal(size=(12, 6))[y] + 0.4 * rng.normal(size=(60, 6)))
    model = GraphGPClassifier(
        kernel=FIXED_RBF, filter="identity", inducing=inducing, random_state=0, engine=TIGHT
    )
    fits = []
    plain = leave_groups_out

    def keeping(fit, groups):
        fits.append((fit, groups))
        return plain(fit, groups)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nodegp.model.classifier.leave_groups_out", keeping)
        model.fit(graph, hide(y, np.arange(36)))
    return fits


KINDS = {"labelled": "labelled", "points": Points(30)}


@pytest.mark.parametrize("inducing", KINDS)
def test_latents_in_blocks_are_left_out_as_the_whole(inducing, monkeypatch):
    whole = many_classes(KINDS[inducing])
    assert isinstance(whole[0][0].posterior.gain, torch.Tensor)
    monkeypatch.setattr(budget, "fit", 100)
    monkeypatch.setattr(budget, "passing", 3000)
    for (fit, groups), (same, same_groups) in zip(
        many_classes(KINDS[inducing]), whole, strict=True
    ):
        assert isinstance(fit.posterior.gain, SiteGains)
        assert np.array_equal(groups, same_groups)
        pairs = zip(leave_groups_out(fit, groups), leave_groups_out(same, groups), strict=True)
        for a, b in pairs:
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.parametrize("kind", [torch.Tensor, OwnClassGains])
def test_what_others_sites_say_by_plain_conditioning(kind, in_blocks, monkeypatch):
    """Also where classes share the precisions for their rivals."""
    if kind is OwnClassGains:
        monkeypatch.setattr("nodegp.inference.shared.MANY_CLASSES", 3)
    ((fit, groups), *_) = many_classes("labelled")
    if in_blocks:
        monkeypatch.setattr(budget, "fit", 100)
        monkeypatch.setattr(budget, "passing", 3000)
    assert isinstance(fit.posterior.gain, kind)
    found = leave_groups_out(fit, groups)
    K = fit.posterior.prior.cov(fit.posterior.inducing, fit.posterior.inducing).numpy()
    lambda1, lambda2 = (part.double().numpy() for part in fit.sites)
    for latent in range(12):
        precision, evidence = lambda2[latent], lambda1[latent]
        for n, group in enumerate(groups):
            rest = [j for j in range(36) if groups[j] != group]
            noisy = K[np.ix_(rest, rest)] + np.diag(1 / precision[rest])
            weights = np.linalg.solve(noisy, K[rest, n])
            mean = weights @ (evidence[rest] / precision[rest])
            assert found.mean[n, latent].item() == pytest.approx(mean, abs=1e-5)
            var = K[n, n] - weights @ K[rest, n]
            assert found.var[n, latent].item() == pytest.approx(var, abs=1e-5)


# --- the groups ----------------------------------------------------------------------------------

some_labels = st.lists(st.integers(0, 5), min_size=1, max_size=60).map(np.array)


def orders(labels, seed):
    return np.random.default_rng(seed).permutation(len(labels)).astype(float)


@given(labels=some_labels, seed=st.integers(0, 1000), turn=st.integers(0, 3))
def test_how_labels_are_dealt(labels, seed, turn):
    groups = dealt_groups(labels, orders(labels, seed), turn)
    classes, counts = np.unique(labels, return_counts=True)
    n_groups = max(round(len(labels) / len(classes)), 2)
    assert ((groups >= STAY) & (groups < n_groups)).all()
    for name, count in zip(classes, counts, strict=True):
        of_class = groups[labels == name]
        if count == 1:
            assert of_class.tolist() == [STAY], "the only one of its class stays"
            continue
        assert (of_class >= 0).all()
        in_each = np.bincount(of_class, minlength=n_groups)
        assert in_each.max() - in_each.min() <= 1, "each class is spread evenly"
        assert in_each.max() < count, "no class is left out whole"
    if turn == 0:
        sizes = np.bincount(groups[groups >= 0], minlength=n_groups)
        assert sizes.max() - sizes.min() <= 1, "one goes on where the last one ended"


@given(labels=some_labels, seed=st.integers(0, 1000), turn=st.integers(0, 3))
def test_groups_follow_the_nodes_wherever_they_are(labels, seed, turn):
    """In another order of nodes, and with other names of classes, they are the same groups."""
    order = orders(labels, seed)
    groups = dealt_groups(labels, order, turn)
    rng = np.random.default_rng(seed + 1)
    moved, names = rng.permutation(len(labels)), rng.permutation(6)
    assert np.array_equal(dealt_groups(names[labels][moved], order[moved], turn), groups[moved])


@given(labels=some_labels, seed=st.integers(0, 1000))
def test_rounding_deals_no_labels_otherwise(labels, seed):
    """Nodes that are the same in all have values that differ by rounding only."""
    rng = np.random.default_rng(seed)
    order = rng.integers(0, 5, len(labels)) * 0.37
    noise = 1e-9 * rng.normal(size=len(labels))
    assert np.array_equal(dealt_groups(labels, order + noise), dealt_groups(labels, order))


def test_balanced_labels_have_one_of_each_class_in_a_group():
    labels = np.repeat([0, 1, 2], 5)
    groups = dealt_groups(labels, np.arange(15.0))
    for group in range(5):
        assert sorted(labels[groups == group]) == [0, 1, 2]
    other = dealt_groups(labels, np.arange(15.0), turn=1)
    together = [
        {frozenset(np.flatnonzero(each == g)) for g in range(5)} for each in (groups, other)
    ]
    assert not together[0] & together[1], "another turn brings others together"
    assert growth(labels) == 5 / 4


def test_of_many_classes_some_are_left_out_at_a_time():
    """Groups with a label of each of hundreds of classes would be slow to leave out."""
    labels = np.repeat(np.arange(50), 4)
    groups = dealt_groups(labels, np.random.default_rng(0).permutation(200).astype(float))
    sizes = np.bincount(groups)
    assert sizes.tolist() == [20] * 10
    for group in range(10):
        assert len(set(labels[groups == group])) == 20, "never two of a class"
    assert growth(labels) == 4 / 3, "a class loses one of four all the same"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [([0], 2.0), ([0, 1], 2.0), ([0, 0, 0, 1, 1, 1], 1.5), ([0] * 10, 10 / 9), ([0, 1, 1, 1], 2.0)],
)
def test_what_is_left_without_a_group_is_less_by_a_share(labels, expected):
    assert growth(np.array(labels)) == pytest.approx(expected)


# --- what it is for ------------------------------------------------------------------------------


def test_a_label_has_no_say_in_what_is_said_of_it(monkeypatch):
    """Neither in the weights of views nor in the temperature: with few labels and views that say
    little, both make leave-one-out look better than it is."""
    kinder = {"weights": [], "temperature": []}
    for seed in range(10):
        data = synthetic(200, n_classes=3, n_features=40, homophily=0.45, seed=seed)
        y = hide(data.y, np.concatenate([np.flatnonzero(data.y == c)[:4] for c in range(3)]))

        def loss(y=y, graph=data.graph):
            model = GraphGPClassifier().fit(graph, y)
            return log_loss(model.labels_, model.loo_proba_)

        honest = loss()
        with monkeypatch.context() as patch:
            patch.setattr("nodegp.model.classifier.without_own_say", lambda proba, pooled: proba)
            kinder["weights"].append(honest - loss())
        with monkeypatch.context() as patch:
            patch.setattr("nodegp.model.classifier.fit_temperatures", with_a_say)
            kinder["temperature"].append(honest - loss())
    assert np.mean(kinder["weights"]) > 0.01
    assert np.mean(kinder["temperature"]) > 0.01


def with_a_say(*settings):
    found = fit_temperatures(*settings)
    return found._replace(by_others=np.full_like(found.by_others, found.by_all))


def test_balanced_labels_that_say_nothing_are_not_worse_than_guessing():
    """Where features are noise, leaving labels out one at a time finds nearly all predictions
    wrong: the class of the label is the only one with fewer labels. In groups it finds a guess."""
    rng = np.random.default_rng(0)
    groups_right, alone_right = [], []
    for _ in range(12):
        graph = Graph(np.zeros((60, 60)), rng.normal(size=(60, 20)))
        y = hide(np.arange(60) % 3, np.arange(30))
        fits = []

        def keeping(fit, groups, fits=fits):
            fits.append(fit)
            return leave_groups_out(fit, groups)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nodegp.model.classifier.leave_groups_out", keeping)
            model = GraphGPClassifier().fit(graph, y)
        fit, targets = fits[0], y[:30]
        alone = leave_one_out(
            fit.label_marginals, fit.inducing_variance, fit.cavity_share, fit.alpha
        )
        alone_right.append((Softmax().predict(*alone).numpy().argmax(1) == targets).mean())
        groups_right.append((model.loo_proba_.argmax(1) == targets).mean())
    assert np.mean(alone_right) < 0.27
    assert np.mean(groups_right) == pytest.approx(1 / 3, abs=0.07)
