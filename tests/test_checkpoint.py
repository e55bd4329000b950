"""Adam's checkpoints: a fit that was cut short ends where an uninterrupted one does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers import one_hop
from nodegp import GraphGPClassifier
from nodegp_paper.datasets import synthetic
from nodegp_paper.inference import Adam

DATA = synthetic(60, n_classes=3, n_features=8, labels_per_class=8, seed=1)
Y = np.where(np.arange(60) < 24, DATA.y, -1)
STEPS = Adam(learning_rate=0.02, max_iter=60, check_every=10, tol=0)


class Killed(BaseException):
    """Not an Exception: like a signal, nobody catches it on the way."""


def fit(engine: Adam, random_state: int = 3, y: np.ndarray = Y, **settings) -> GraphGPClassifier:
    settings = {"inducing": "points"} | settings
    model = one_hop(engine=replace(engine, dtype="float32"), random_state=random_state, **settings)
    return model.fit(DATA.graph, y)


def fit_killed_at(step: int, engine: Adam, monkeypatch: pytest.MonkeyPatch) -> None:
    def report(self, line: str) -> None:
        if line.startswith(f"step {step} "):
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(GraphGPClassifier, "_report", report)
        with pytest.raises(Killed):
            fit(engine)


def assert_same(a: GraphGPClassifier, b: GraphGPClassifier) -> None:
    np.testing.assert_array_equal(a.elbo_trace_, b.elbo_trace_)
    np.testing.assert_array_equal(a.predict_proba(), b.predict_proba())
    assert a.n_iter_ == b.n_iter_
    assert a.converged_ == b.converged_


@pytest.mark.parametrize("batch_size", [None, 8], ids=["all labels", "minibatches"])
def test_a_killed_fit_resumes_to_the_bit(batch_size, tmp_path, monkeypatch):
    engine = replace(STEPS, batch_size=batch_size, checkpoint=str(tmp_path / "fit"))
    fit_killed_at(40, engine, monkeypatch)
    lines = []
    with monkeypatch.context() as patch:
        patch.setattr(GraphGPClassifier, "_report", lambda self, line: lines.append(line))
        resumed = fit(engine)
    assert [line.split()[1] for line in lines] == ["40", "50", "60"]  # not from the start
    assert_same(resumed, fit(replace(engine, checkpoint=None)))


def test_a_finished_fit_goes_on_to_more_steps(tmp_path):
    file = str(tmp_path / "new folder" / "fit")
    for steps in (20, 40, 60):
        model = fit(replace(STEPS, max_iter=steps, checkpoint=file))
    assert_same(model, fit(STEPS))


def test_a_shorter_fit_does_not_use_a_longer_ones_checkpoint(tmp_path):
    file = str(tmp_path / "fit")
    fit(replace(STEPS, checkpoint=file))
    assert_same(fit(replace(STEPS, max_iter=20, checkpoint=file)), fit(replace(STEPS, max_iter=20)))


@pytest.mark.parametrize(
    "other",
    [
        {"random_state": 4},
        {"y": np.where(Y == 0, 1, Y)},
        {"preprocessing": "l2"},
        {"filter": "identity"},
        {"likelihood": "softmax"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_fits_checkpoint_is_not_used(other, tmp_path):
    engine = replace(STEPS, max_iter=20, checkpoint=str(tmp_path / "fit"))
    fit(engine, **other)
    assert_same(fit(engine), fit(replace(engine, checkpoint=None)))


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign"])
def test_a_damaged_checkpoint_is_as_good_as_none(damage, tmp_path):
    file = tmp_path / "fit"
    engine = replace(STEPS, max_iter=20, checkpoint=str(file))
    fit(engine)
    content = file.read_bytes()
    file.write_bytes({"cut": content[:-100], "empty": b"", "foreign": b"id,label\n1,a\n"}[damage])
    assert_same(fit(engine), fit(replace(engine, checkpoint=None)))
    assert list(Path(tmp_path).iterdir()) == [file]  # no half-written files beside it
