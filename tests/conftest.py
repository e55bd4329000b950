"""What the tests share: small random graphs, and every kernel beside its loop-written twin."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings

import reference
from browser import a_browser
from forks import NODEGP, Forks
from nodegp.component import Component
from nodegp.graph import Graph
from nodegp.kernels import (
    RBF,
    ArcCosine,
    Constant,
    Cosine,
    Kernel,
    Linear,
    Matern,
    Polynomial,
    Product,
    Scaled,
    Sum,
)
from nodegp.rows import Rows
from tables import fitted_folder

settings.register_profile(
    "nodegp", deadline=None, max_examples=25, derandomize="CI" in os.environ, print_blob=True
)
settings.load_profile("nodegp")


@pytest.fixture(scope="session", autouse=True)
def the_disk_is_not_waited_for():
    """No test stops the machine, and a killed process leaves what it wrote in the system's memory.
    Those that look at when files are made durable count the calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # whose handle must be open, too
        yield


def random_graph(
    n: int = 12,
    p: float = 0.25,
    d: int = 3,
    seed: int = 0,
    weighted: bool = False,
    sparse: bool = False,
) -> Graph:
    """An Erdos-Renyi graph whose last node is isolated; sparse features have a zero row."""
    generator = np.random.default_rng(seed)
    weights = generator.uniform(0.2, 3.0, (n, n)) if weighted else np.ones((n, n))
    A = np.triu(weights * (generator.random((n, n)) < p), 1)
    A[:, n - 1] = 0.0
    X = generator.standard_normal((n, d))
    if sparse:
        X = np.abs(X) * (generator.random((n, d)) < 0.6)
        X[0] = 0.0
        return Graph(sp.csr_array(A + A.T), sp.csr_array(X))
    return Graph(A + A.T, X)


@pytest.fixture(scope="session", name="random_graph")
def random_graph_maker():
    """``random_graph`` for tests that would rather not import it."""
    return random_graph


@pytest.fixture(scope="module", name="folder")
def folder_with_a_model(tmp_path_factory) -> Path:
    """Tables of a user and the model that the command line fits to them; many tests have a
    ``folder`` of their own instead."""
    return fitted_folder(tmp_path_factory.mktemp("tables"))


@pytest.fixture
def in_folder(folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture(scope="session")
def commands():
    """``commands.run(folder, environment, *arguments)`` is `nodegp` in a process of its own."""
    with Forks(NODEGP) as forks:
        yield forks


@pytest.fixture(scope="module")
def browser():
    """One that Playwright drives; where there is none, the test skips."""
    with a_browser() as one:
        yield one


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write files by name and read them from the folder they are in."""
    monkeypatch.chdir(tmp_path)

    def write(**contents):
        for name, content in contents.items():
            path = tmp_path / name.replace("_", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def dense(rows: Rows) -> np.ndarray:
    """What rows stand for, whatever their form: values less their centre."""
    values = rows.values.toarray() if rows.is_sparse else rows.values.detach().numpy()
    return values if rows.centre is None else values - rows.centre


def concrete(base: type[Component], method: str) -> list[type[Component]]:
    """The package's own classes under ``base`` that implement its abstract method."""
    return [
        cls
        for cls in Component.registry.values()
        if issubclass(cls, base)
        and cls.__module__.startswith(("nodegp.", "nodegp_paper."))
        and not getattr(getattr(cls, method), "__isabstractmethod__", False)
    ]


def pair(kernel: Kernel, twin, **settings) -> tuple[Kernel, reference.BaseKernel]:
    return kernel, partial(twin, **settings)


_poly = pair(Polynomial(2, 0.7, 1.3), reference.polynomial, degree=2, variance=0.7, offset=1.3)
_rbf = pair(RBF(0.8, 1.7), reference.rbf, variance=0.8, lengthscale=1.7)
_linear = pair(Linear(0.6), reference.linear, variance=0.6)
_bias = pair(Constant(0.4), reference.constant, variance=0.4)

# Every kernel class, in each form that takes a branch of its own.
KERNELS = {
    "constant": pair(Constant(1.7), reference.constant, variance=1.7),
    "linear": pair(Linear(0.6), reference.linear, variance=0.6),
    "polynomial-1": pair(
        Polynomial(1, 0.5, 2.0), reference.polynomial, degree=1, variance=0.5, offset=2.0
    ),
    "polynomial-2": _poly,
    "polynomial-3": pair(
        Polynomial(3, 0.5, 2.0), reference.polynomial, degree=3, variance=0.5, offset=2.0
    ),
    "rbf": _rbf,
    "matern-0.5": pair(
        Matern(0.5, 1.2, 0.9), reference.matern, nu=0.5, variance=1.2, lengthscale=0.9
    ),
    "matern-1.5": pair(
        Matern(1.5, 1.2, 0.9), reference.matern, nu=1.5, variance=1.2, lengthscale=0.9
    ),
    "matern-2.5": pair(
        Matern(2.5, 1.2, 0.9), reference.matern, nu=2.5, variance=1.2, lengthscale=0.9
    ),
    "cosine": pair(Cosine(1.4), reference.cosine, variance=1.4),
    "arc-cosine-0": pair(
        ArcCosine(0, 1.1, 0.8, 0.5),
        reference.arc_cosine,
        order=0,
        variance=1.1,
        weight=0.8,
        bias=0.5,
    ),
    "arc-cosine-1": pair(
        ArcCosine(1, 1.1, 0.8, 0.5),
        reference.arc_cosine,
        order=1,
        variance=1.1,
        weight=0.8,
        bias=0.5,
    ),
    "arc-cosine-2": pair(
        ArcCosine(2, 1.1, 0.8, 0.5),
        reference.arc_cosine,
        order=2,
        variance=1.1,
        weight=0.8,
        bias=0.5,
    ),
    "sum": (Sum((_rbf[0], _linear[0])), lambda x, y: _rbf[1](x, y) + _linear[1](x, y)),
    "product": (Product((_rbf[0], _linear[0])), lambda x, y: _rbf[1](x, y) * _linear[1](x, y)),
    "scaled": (Scaled(_rbf[0], 2.5), lambda x, y: 2.5 * _rbf[1](x, y)),
    "nested": (
        1.5 * (_poly[0] + _rbf[0] * (_linear[0] + _bias[0])),
        lambda x, y: 1.5 * (_poly[1](x, y) + _rbf[1](x, y) * (_linear[1](x, y) + _bias[1](x, y))),
    ),
    "nested-polynomial": (
        _linear[0] * (2.0 * _poly[0] + _bias[0]) + _poly[0],
        lambda x, y: _linear[1](x, y) * (2.0 * _poly[1](x, y) + _bias[1](x, y)) + _poly[1](x, y),
    ),
}

# The angle of two almost equal points loses half its digits: acos(1 - e) is sqrt(2 e). Order 0
# is that angle, so no formula on inner products agrees to more than the root of rounding.
TOLERANCE = dict.fromkeys(KERNELS, 1e-10) | {"arc-cosine-0": 1e-7}
