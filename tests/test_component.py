"""Components: plain data and back, free and fixed hyper-parameters, copies with others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import ClassVar

import numpy as np
import pytest
import torch

from conftest import KERNELS
from nodegp import plugins
from nodegp.component import Component, from_dict
from nodegp.filters import Filter, Identity, NeighbourMean
from nodegp.kernels import RBF, Constant, Kernel, Linear, Matern, Polynomial, Scaled, Sum

COMPONENTS = [kernel for kernel, _ in KERNELS.values()] + [NeighbourMean(), Identity()]


@pytest.mark.parametrize("component", COMPONENTS, ids=repr)
def test_round_trip_through_json(component):
    """What is saved is plain JSON, and reading it gives an equal component."""
    again = from_dict(json.loads(json.dumps(component.to_dict())))
    assert again == component
    assert type(again) is type(component)
    assert again.parameters() == component.parameters()


def test_round_trip_keeps_what_is_fixed():
    kernel = Sum((RBF(fixed=("variance",)), 2.0 * Polynomial(4, 1.0, 0.0, fixed=("offset",))))
    again = from_dict(json.loads(json.dumps(kernel.to_dict())))
    assert again == kernel
    assert again.free_parameters() == kernel.free_parameters()


def test_numpy_numbers_are_saved_too():
    """A value that came out of a computation must not break saving."""
    kernel = RBF(np.float64(2.0), np.float32(0.5))
    assert from_dict(json.loads(json.dumps(kernel.to_dict()))) == RBF(2.0, 0.5)


def test_from_dict_names_the_unknown_type():
    with pytest.raises(ValueError, match="unknown component 'Wavelet': import the module"):
        from_dict({"type": "Wavelet"})


def test_from_dict_leaves_its_argument_alone():
    data = (RBF() + Linear()).to_dict()
    copy = json.loads(json.dumps(data))
    from_dict(data)
    assert data == copy


def test_paths_of_nested_hyper_parameters():
    kernel = Sum((RBF(2.0, 3.0), Scaled(Linear(5.0), 7.0)))
    assert kernel.parameters() == {
        "terms[0].variance": 2.0,
        "terms[0].lengthscale": 3.0,
        "terms[1].scale": 7.0,
        "terms[1].kernel.variance": 5.0,
    }


def test_fixed_ones_are_parameters_but_not_free():
    kernel = Sum((RBF(fixed=("variance",)), Polynomial(2, 1.0, 0.0, fixed=("offset", "variance"))))
    assert set(kernel.parameters()) == {
        "terms[0].variance",
        "terms[0].lengthscale",
        "terms[1].variance",
        "terms[1].offset",
    }
    assert set(kernel.free_parameters()) == {"terms[0].lengthscale"}


@pytest.mark.parametrize("component", COMPONENTS, ids=repr)
def test_with_parameters_sets_each_path_alone(component):
    before = component.parameters()
    for path in before:
        changed = component.with_parameters({path: 9.25})
        assert changed.parameters() == before | {path: 9.25}
    assert component.parameters() == before, "the original changed"
    doubled = {path: 2.0 * value for path, value in before.items()}
    assert component.with_parameters(doubled).parameters() == doubled
    assert component.with_parameters({}) == component


def test_with_parameters_keeps_settings_and_fixed():
    kernel = Matern(2.5, fixed=("variance",)).with_parameters({"lengthscale": 3.0})
    assert kernel == Matern(2.5, 1.0, 3.0, fixed=("variance",))


def test_with_parameters_takes_tensors():
    value = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    kernel = (RBF() + Linear()).with_parameters({"terms[1].variance": value})
    assert kernel.parameters()["terms[1].variance"] is value


def test_a_single_name_may_be_fixed_without_a_tuple():
    assert RBF(fixed="variance").fixed == ("variance",)


def test_unknown_name_cannot_be_fixed():
    with pytest.raises(ValueError, match="no hyper-parameter 'bias' to fix"):
        RBF(fixed=("bias",))


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), -1])
@pytest.mark.parametrize("fixed", [(), ("variance",)])
def test_hyper_parameters_must_be_positive_numbers(value, fixed):
    with pytest.raises(ValueError, match="variance must be positive"):
        RBF(variance=value, fixed=fixed)


@pytest.mark.parametrize("value", [np.float64(-1.0), np.float32(-1.0), np.int64(-1)])
def test_numpy_numbers_are_checked_too(value):
    with pytest.raises(ValueError, match="variance must be positive"):
        RBF(variance=value)


@pytest.mark.parametrize("value", ["one", None, [1.0]])
def test_what_is_not_a_number_is_refused(value):
    with pytest.raises((TypeError, ValueError), match="variance"):
        RBF(variance=value)


def test_zero_only_if_fixed():
    with pytest.raises(ValueError, match="cannot be learnt"):
        Polynomial(offset=0.0)
    assert Polynomial(offset=0.0, fixed=("offset",)).offset == 0.0


def test_learn_fixes_the_others():
    kernel = Polynomial().learn("offset")
    assert set(kernel.free_parameters()) == {"offset"}
    assert Polynomial().learn().free_parameters() == {}
    assert set(Polynomial(fixed=("offset",)).learn("offset").free_parameters()) == {"offset"}


def test_components_are_immutable_values():
    with pytest.raises(AttributeError):
        RBF().variance = 2.0
    assert hash(RBF(2.0)) == hash(RBF(2.0))
    assert RBF(2.0) != RBF(3.0)
    assert Constant() != Linear()


def test_every_kernel_and_filter_registers_itself():
    for base in (Kernel, Filter):
        for cls in (c for c in base.__subclasses__() if c.__module__.startswith("nodegp.")):
            assert Component.registry[cls.__name__] is cls


def test_an_alias_belongs_to_one_class():
    with pytest.raises(ValueError, match="NeighbourMean has the alias 'mean' already"):

        @dataclass(frozen=True)
        class AnotherMean(Filter):
            alias: ClassVar = "mean"

            def weights(self, graph, nodes):
                return None


def test_a_plugin_that_cannot_be_imported_is_left_out(monkeypatch):
    broken = EntryPoint("broken", "no_such_module:THING", "nodegp.baselines")
    monkeypatch.setattr(plugins, "entry_points", lambda group: [broken])
    with pytest.warns(UserWarning, match="no_such_module:THING .*cannot be imported"):
        assert plugins.baselines() == {}
    with pytest.warns(UserWarning, match="left out"):
        assert plugins.commands() == {}
