"""The GPyTorch kernel: our own covariance, whatever asks for it and in whatever shape."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import nodegp
import reference
from conftest import random_graph
from nodegp.budget import budget
from nodegp.filters import Filter, Identity, NeighbourMean
from nodegp.kernels import RBF, Polynomial
from nodegp.likelihoods import Gaussian
from nodegp.preprocessing import Preprocessor
from nodegp.prior import Domain, make_prior
from nodegp_paper.datasets import hub_graph

gpytorch = pytest.importorskip("gpytorch")
module = importlib.import_module("nodegp_paper.gpytorch")
GraphKernel = module.GraphKernel


def rbf(variance=1.3, lengthscale=0.8, batch_shape=()):
    batch = torch.Size(batch_shape)
    base = gpytorch.kernels.RBFKernel(batch_shape=batch)
    kernel = gpytorch.kernels.ScaleKernel(base, batch_shape=batch).double()
    kernel.outputscale = torch.as_tensor(variance, dtype=torch.float64)
    base.lengthscale = torch.as_tensor(lengthscale, dtype=torch.float64).reshape(*batch, 1, 1)
    return kernel


def cubic(offset=0.7):
    kernel = gpytorch.kernels.PolynomialKernel(power=3).double()
    kernel.offset = torch.tensor(offset, dtype=torch.float64)
    return kernel


PAIRS = {"rbf": (RBF(1.3, 0.8), rbf), "cubic": (Polynomial(3, 1.0, 0.7), cubic)}


def ours(kernel, graph, a, b, filter, features):
    """The covariance as our estimators compute it."""
    domain = Domain(graph, Preprocessor.fit(graph.features, features, n_nodes=graph.n_nodes))
    prior = make_prior(filter, kernel, domain)
    return prior.cov(*(prior.at(domain, np.asarray(n)) for n in (a, b))).numpy()


def close(actual, expected, tolerance=1e-8):
    actual = actual.detach().numpy() if isinstance(actual, torch.Tensor) else actual
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def nodes(*numbers):
    return torch.tensor(numbers)


# --- the same covariance as ours -------------------------------------------------------------


@pytest.mark.parametrize("features", ["raw", "standardise", "l2", "auto"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("filter", [NeighbourMean(), Identity()], ids=["mean", "identity"])
@pytest.mark.parametrize("name", PAIRS)
def test_is_our_covariance(name, filter, sparse, features):
    kernel, twin = PAIRS[name]
    graph = random_graph(15, seed=3, weighted=True, sparse=sparse)
    a, b = [3, 0, 14, 3, 7], [7, 1, 2]
    theirs = GraphKernel(graph, twin(), filter, features)
    close(theirs(nodes(*a), nodes(*b)).to_dense(), ours(kernel, graph, a, b, filter, features))
    close(theirs(nodes(*a)).to_dense(), ours(kernel, graph, a, a, filter, features))


@given(seed=st.integers(0, 10_000), n=st.integers(1, 14), p=st.floats(0.0, 0.8), data=st.data())
def test_any_nodes_of_any_graph(seed, n, p, data):
    graph = random_graph(n, p, seed=seed, weighted=True)
    numbers = st.lists(st.integers(0, n - 1), min_size=1, max_size=8)
    a, b = data.draw(numbers), data.draw(numbers)
    theirs = GraphKernel(graph, rbf(), preprocessing="raw")
    close(
        theirs(nodes(*a), nodes(*b)).to_dense(),
        ours(RBF(1.3, 0.8), graph, a, b, NeighbourMean(), "raw"),
    )
    close(theirs(nodes(*a), diag=True), theirs(nodes(*a)).to_dense().diagonal().detach())


def test_is_the_loop_of_the_paper():
    graph = random_graph(9, seed=1, weighted=True)
    K = reference.prior_covariance(
        lambda x, y: reference.polynomial(x, y, 3, 1.0, 0.7),
        graph.adjacency.toarray(),
        graph.features,
    )
    close(GraphKernel(graph, cubic(), preprocessing="raw")(torch.arange(9)).to_dense(), K)


def test_a_graph_without_features_tells_nodes_by_position():
    graph = nodegp.Graph(random_graph(8, seed=2).adjacency)
    expected = ours(RBF(1.3, 0.8), graph, range(8), range(8), NeighbourMean(), "auto")
    close(GraphKernel(graph, rbf())(torch.arange(8)).to_dense(), expected)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64])
def test_node_numbers_of_any_type_and_shape(dtype):
    kernel = GraphKernel(random_graph(), rbf())
    expected = kernel(nodes(4, 0, 9)).to_dense().detach()
    column = nodes(4, 0, 9).to(dtype)[:, None]
    close(kernel(column).to_dense(), expected)
    assert kernel(column).to_dense().dtype == torch.float64  # the base kernel's


def test_precision_is_the_base_kernels():
    kernel = GraphKernel(random_graph(), rbf())
    expected = kernel(torch.arange(12)).to_dense().detach()
    single = kernel.float()(torch.arange(12))
    assert single.to_dense().dtype == torch.float32
    assert kernel(torch.arange(12), diag=True).dtype == torch.float32
    close(single.to_dense(), expected, 1e-5)


# --- diagonals, blocks and batches -----------------------------------------------------------


@pytest.mark.parametrize("tile", [1, 40, 1 << 24], ids=["tiny", "small", "whole"])
@pytest.mark.parametrize("name", PAIRS)
def test_blocks_make_no_difference(name, tile, monkeypatch):
    """Also a hub, whose own variance is cut into blocks."""
    graph = hub_graph(30, n_features=3, dtype=np.float64).graph
    kernel = GraphKernel(graph, PAIRS[name][1](), preprocessing="raw")
    expected = ours(PAIRS[name][0], graph, range(31), range(31), NeighbourMean(), "raw")
    monkeypatch.setattr(budget, "fit", tile)
    close(kernel(torch.arange(31)).to_dense(), expected)
    close(kernel(torch.arange(31), diag=True), expected.diagonal())
    with torch.no_grad():
        close(kernel(torch.arange(31)).to_dense(), expected)


def test_diagonal_between_two_lists():
    kernel = GraphKernel(random_graph(weighted=True), rbf())
    a, b = nodes(0, 5, 11, 3), nodes(7, 5, 2, 0)
    close(kernel(a, b, diag=True), kernel(a, b).to_dense().diagonal().detach())


@pytest.mark.parametrize("base", [(), (2,), (3, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("outer", [(), (2,), (3, 2)], ids=str)
def test_batches_broadcast_as_elsewhere_in_gpytorch(outer, base):
    graph = random_graph(weighted=True)
    rng = np.random.default_rng(0)
    lengthscale = rng.uniform(0.5, 2.0, base)
    kernel = GraphKernel(graph, rbf(np.full(base, 1.3), lengthscale, base), preprocessing="raw")
    a, b = (torch.from_numpy(rng.integers(0, 12, (*outer, n, 1))) for n in (4, 5))
    shape = np.broadcast_shapes(outer, base)
    K, diagonal = kernel(a, b).to_dense(), kernel(a, diag=True)
    assert K.shape == (*shape, 4, 5)
    assert diagonal.shape == (*shape, 4)
    lengthscale = np.broadcast_to(lengthscale, shape)
    left, right = (np.broadcast_to(x[..., 0].numpy(), (*shape, x.shape[-2])) for x in (a, b))
    for at in np.ndindex(shape):
        one = RBF(1.3, float(lengthscale[at]))
        close(K[at], ours(one, graph, left[at], right[at], NeighbourMean(), "raw"))
        square = ours(one, graph, left[at], left[at], NeighbourMean(), "raw")
        close(diagonal[at], square.diagonal())


def test_no_nodes_is_an_empty_matrix():
    kernel = GraphKernel(random_graph(), rbf())
    none = torch.zeros(0, 1, dtype=torch.long)
    assert kernel(none, nodes(1, 2)).to_dense().shape == (0, 2)
    assert kernel(none, diag=True).shape == (0,)


def test_a_filter_may_leave_nodes_out():
    class Nothing(Filter):
        """Not a mean: some rows are empty, others do not sum to one."""

        def weights(self, graph, asked):
            rows = NeighbourMean().weights(graph, asked).toarray()
            rows[asked % 2 == 0] = 0.0
            return sp.csr_array(2.0 * rows)

    graph = random_graph()
    kernel = GraphKernel(graph, rbf(), Nothing(), "raw")
    expected = ours(RBF(1.3, 0.8), graph, range(12), range(12), Nothing(), "raw")
    assert not expected[0].any()
    close(kernel(torch.arange(12)).to_dense(), expected)
    close(kernel(torch.arange(12), diag=True), expected.diagonal())


def test_beside_a_kernel_of_other_inputs():
    """Node numbers in one column and a time in another: a product kernel over both."""
    graph = random_graph()
    time = gpytorch.kernels.RBFKernel(active_dims=(1,)).double()
    both = GraphKernel(graph, rbf(), active_dims=(0,)) * time
    x = torch.tensor([[3.0, 0.1], [3.0, 0.9], [7.0, 0.1]], dtype=torch.float64)
    on_graph = GraphKernel(graph, rbf())(x[:, :1]).to_dense()
    close(both(x).to_dense(), (on_graph * time(x).to_dense()).detach())
    close(both(x, diag=True), (on_graph * time(x).to_dense()).diagonal().detach())
    with pytest.raises(ValueError, match=r"whole, got 3\.5"):
        both(x + 0.5 * torch.eye(3, 2)).to_dense()
    close(both(x).to_dense(), (on_graph * time(x).to_dense()).detach())  # no harm done


# --- gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [60, 1 << 24], ids=["blocks", "whole"])
@pytest.mark.parametrize("diag", [False, True], ids=["matrix", "diagonal"])
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_are_finite_differences(name, diag, tile, monkeypatch):
    monkeypatch.setattr(budget, "fit", tile)
    kernel = GraphKernel(random_graph(weighted=True), PAIRS[name][1]())
    a = nodes(0, 3, 3, 8, 11)
    b = a if diag else nodes(2, 8, 9)
    shape = (5,) if diag else (5, 3)
    mixing = torch.from_numpy(np.random.default_rng(0).standard_normal(shape))

    def value():
        K = kernel(a, b, diag=True) if diag else kernel(a, b).to_dense()
        return (K * mixing).sum()

    value().backward()
    assert len(list(kernel.parameters())) > 0
    for parameter in kernel.parameters():
        analytic, start, step = parameter.grad.clone(), parameter.data.clone(), 1e-5
        ends = []
        for sign in (1, -1):
            parameter.data = start + sign * step
            ends.append(value().item())
        parameter.data = start
        assert analytic.item() != 0
        assert analytic.item() == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


# --- in GPyTorch's models --------------------------------------------------------------------


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood, kernel):
        super().__init__(x, y, likelihood)
        self.mean, self.kernel = gpytorch.means.ConstantMean().double(), kernel

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


class Variational(gpytorch.models.ApproximateGP):
    def __init__(self, inducing, kernel):
        q = gpytorch.variational.NaturalVariationalDistribution(len(inducing)).double()
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, inducing, q, learn_inducing_locations=False, jitter_val=1e-10
            )
        )
        self.mean, self.kernel = gpytorch.means.ConstantMean().double(), kernel

    forward = Exact.forward


@pytest.fixture(name="regression")
def regression_problem():
    """A graph, the labelled nodes with standardised targets, and our regressor's answers."""
    graph = random_graph(30, 0.1, seed=5)
    rng = np.random.default_rng(1)
    labelled = np.sort(rng.choice(30, 14, replace=False))
    y = np.full(30, np.nan)
    y[labelled] = rng.standard_normal(14)
    y[labelled] = (y[labelled] - y[labelled].mean()) / y[labelled].std()
    model = nodegp.GraphGPRegressor(
        kernel=RBF(1.3, 0.8).learn(),
        filter="mean",
        likelihood=Gaussian(0.2, fixed=("noise",)),
        inducing="labelled",
    ).fit(graph, y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = 0.2
    return graph, torch.from_numpy(labelled), torch.from_numpy(y[labelled]), model, likelihood


def test_an_exact_gp_is_our_regressor(regression):
    graph, labelled, y, ours, likelihood = regression
    theirs = Exact(labelled, y, likelihood, GraphKernel(graph, rbf()))
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, theirs)
    total = evidence(theirs(labelled), y) * len(y)  # GPyTorch divides it by the number of labels
    assert total.item() == pytest.approx(ours.elbo_, rel=1e-6)
    total.backward()
    assert all(p.grad is not None for p in theirs.kernel.parameters())
    theirs.eval()
    posterior = theirs(torch.arange(30))
    mean, cov = ours.predict_latent(cov=True)
    close(posterior.mean, mean[:, 0], 1e-6)
    close(posterior.covariance_matrix, cov[0], 1e-6)


def test_a_variational_model_with_all_labelled_nodes_is_our_regressor(regression):
    """One natural-gradient step of length one is the exact answer for Gaussian noise."""
    graph, labelled, y, ours, likelihood = regression
    theirs = Variational(labelled, GraphKernel(graph, rbf()))
    elbo = gpytorch.mlls.VariationalELBO(likelihood, theirs, num_data=len(y))
    step = gpytorch.optim.NGD(theirs.variational_parameters(), num_data=len(y), lr=1.0)
    theirs(labelled)  # starts q at the prior, on first use
    step.zero_grad()
    (-elbo(theirs(labelled), y)).backward()
    step.step()
    assert (elbo(theirs(labelled), y) * len(y)).item() == pytest.approx(ours.elbo_, rel=1e-5)
    theirs.eval()
    posterior = theirs(torch.arange(30))
    mean, variance = ours.predict_latent()
    close(posterior.mean, mean[:, 0], 1e-5)
    close(posterior.variance, variance[:, 0], 1e-5)


# --- copies and files ------------------------------------------------------------------------


@pytest.mark.parametrize("again", [copy.deepcopy, lambda k: pickle.loads(pickle.dumps(k))])
def test_copies_give_the_same_answers(again):
    kernel = GraphKernel(random_graph(sparse=True), rbf(), "identity", "l2")
    close(again(kernel)(torch.arange(12)).to_dense(), kernel(torch.arange(12)).to_dense().detach())


def test_state_dict_holds_the_hyper_parameters():
    graph = random_graph()
    first, second = GraphKernel(graph, rbf(2.0, 0.5)), GraphKernel(graph, rbf())
    assert all(name.startswith("base_kernel.") for name in first.state_dict())
    second.load_state_dict(first.state_dict())
    close(second(torch.arange(12)).to_dense(), first(torch.arange(12)).to_dense().detach(), 0)


# --- what goes wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.tensor([0, 12]), r"0\.\.11, got 0\.\.12"),
        (torch.tensor([-1, 3]), r"0\.\.11, got -1\.\.3"),
        (torch.tensor([0.0, 2.5]), "whole, got 2.5"),
        (torch.tensor([float("nan")]), "whole, got nan"),
        (torch.tensor([float("inf")]), "whole, got inf"),
        (torch.zeros(12, dtype=torch.bool), "not a mask"),
        (torch.zeros(4, 3), "got 3 columns; .*active_dims"),
    ],
)
@pytest.mark.parametrize("diag", [False, True])
def test_bad_node_numbers(x, message, diag):
    kernel = GraphKernel(random_graph(), rbf())
    with pytest.raises(ValueError, match=message):
        kernel(x, diag=diag)
    with pytest.raises(ValueError, match=message):
        kernel(nodes(0), x)


def test_floats_too_coarse_for_the_graph():
    graph = nodegp.Graph(sp.csr_array((3000, 3000)), np.zeros((3000, 1)))
    kernel = GraphKernel(graph, rbf(), preprocessing="raw")
    assert kernel(torch.tensor([2047.0]).half()).to_dense().shape == (1, 1)
    with pytest.raises(ValueError, match=r"float16 cannot tell node 2048 .* float64 or integers"):
        kernel(torch.tensor([2048.0]).half())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"graph": np.eye(3)}, TypeError, "graph must be a nodegp.Graph, got a ndarray"),
        ({"base_kernel": RBF()}, TypeError, "GPyTorch kernel, got a nodegp.kernels.RBF"),
        ({"filter": "median"}, ValueError, "filter must be one of"),
        ({"preprocessing": "words"}, ValueError, "preprocessing must be one of"),
    ],
)
def test_bad_settings(settings, error, message):
    with pytest.raises(error, match=message):
        GraphKernel(**({"graph": random_graph(), "base_kernel": rbf()} | settings))


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gpytorch", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "nodegp_paper.gpytorch")
    with pytest.raises(ImportError, match=r"pip install 'nodegp\[interop\]'"):
        importlib.import_module("nodegp_paper.gpytorch")
