"""The paper's training recipe, written with GPflow 2's SVGP by its own extension points.

The inputs of the kernel are node indices; a custom `InducingVariables` with registered `Kuu` and
`Kuf` makes the inducing variables values f(z) in feature space (inter-domain). Equation numbers
are those of Ng, Colombo and Silva (2018). Settings are the authors': TF-IDF features, base kernel
(<x, x'> + offset)^3, robust-max, whitened q, Z from k-means, float32, jitter 1e-5, Adam 5e-4, the
best ELBO seen every 200 steps is kept.

Run in its own environment (see README.md). The last line of stdout is one JSON object.
"""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import json
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import gpflow
import numpy as np
import scipy.sparse as sp
import tensorflow as tf
import tf_keras
from gpflow.base import TensorLike
from gpflow.inducing_variables.inducing_variables import InducingPointsBase
from scipy.cluster.vq import kmeans2

LEARNING_RATE = 5e-4
JITTER = 1e-5
ELBO_EVERY = 200  # steps between two looks at the ELBO

gpflow.config.set_default_float(np.float32)
gpflow.config.set_default_jitter(JITTER)


@dataclass(frozen=True)
class Neighbourhoods:
    """What the covariances of some nodes need of graph and features, gathered once."""

    mean: tf.SparseTensor  # (n, B) rows of P = (I + D)^-1 (I + A), on the B nodes they touch
    features: tf.SparseTensor  # (B, D) features of those nodes
    pair_gram: tf.Tensor  # (pairs,) <x_i, x_j> for all i, j in one neighbourhood
    pair_node: tf.Tensor  # (pairs,) whose neighbourhood, ascending
    touched: np.ndarray  # (B,)
    rows: sp.csr_matrix  # (n, B), as `mean`


class NeighbourMeanKernel(gpflow.kernels.Kernel):
    """Covariance of h_n, the mean of f over node n and its neighbours; inputs are node indices.

    The indices must be known when a function is traced (numpy arrays, or eager tensors), so that
    what does not depend on the hyper-parameters is computed once and captured as constants.
    """

    def __init__(self, features: sp.csr_matrix, adjacency: sp.csr_matrix, offset: float):
        super().__init__()
        self.offset = gpflow.Parameter(offset, transform=gpflow.utilities.positive())
        n = adjacency.shape[0]
        degree = np.asarray(adjacency.sum(axis=1)).ravel()
        self._features = features
        self._mean = (sp.diags(1.0 / (1.0 + degree)) @ (sp.eye(n) + adjacency)).tocsr()  # P
        self._gathered: dict[bytes, Neighbourhoods] = {}

    def base(self, gram: tf.Tensor) -> tf.Tensor:
        """The base kernel k on inner products."""
        shifted = gram + self.offset
        return shifted * shifted * shifted

    def neighbourhoods(self, nodes: TensorLike) -> Neighbourhoods:
        index = tf.get_static_value(nodes)
        if index is None:
            raise ValueError("node indices must be constants: pass a numpy array")
        index = np.asarray(index, dtype=np.int64).ravel()
        key = index.tobytes()
        if key not in self._gathered:
            with tf.init_scope():
                self._gathered[key] = self._gather(index)
        return self._gathered[key]

    def _gather(self, index: np.ndarray) -> Neighbourhoods:
        rows = self._mean[index]
        touched = np.unique(rows.indices)
        rows = rows[:, touched]
        x = self._features[touched]
        bags = np.split(rows.indices, rows.indptr[1:-1])
        grams = [(x[bag] @ x[bag].T).toarray().ravel() for bag in bags]
        return Neighbourhoods(
            mean=sparse_tensor(rows),
            features=sparse_tensor(x),
            pair_gram=tf.constant(np.concatenate(grams), dtype=gpflow.default_float()),
            pair_node=tf.constant(np.repeat(np.arange(len(bags)), [g.size for g in grams])),
            touched=touched,
            rows=rows,
        )

    def K(self, X: TensorLike, X2: TensorLike | None = None) -> tf.Tensor:  # Eq. 12
        left = self.neighbourhoods(X)
        right = left if X2 is None else self.neighbourhoods(X2)
        gram = (self._features[left.touched] @ self._features[right.touched].T).toarray()
        base = self.base(tf.constant(gram, dtype=gpflow.default_float()))
        half = tf.sparse.sparse_dense_matmul(left.mean, base)
        return tf.transpose(tf.sparse.sparse_dense_matmul(right.mean, tf.transpose(half)))

    def K_diag(self, X: TensorLike) -> tf.Tensor:  # Eq. 12 with m = n
        near = self.neighbourhoods(X)
        return tf.math.segment_mean(self.base(near.pair_gram), near.pair_node)


class FeaturePoints(InducingPointsBase):
    """Inducing variables u_m = f(z_m): z_m lives in feature space, not among the nodes."""


@gpflow.covariances.Kuu.register(FeaturePoints, NeighbourMeanKernel)
def _kuu(points: FeaturePoints, kernel: NeighbourMeanKernel, *, jitter: float = 0.0) -> tf.Tensor:
    z = tf.convert_to_tensor(points.Z)
    k = kernel.base(tf.matmul(z, z, transpose_b=True))
    return k + jitter * tf.eye(tf.shape(k)[0], dtype=k.dtype)


@gpflow.covariances.Kuf.register(FeaturePoints, NeighbourMeanKernel, TensorLike)
def _kuf(points: FeaturePoints, kernel: NeighbourMeanKernel, X: TensorLike) -> tf.Tensor:
    near = kernel.neighbourhoods(X)
    z = tf.convert_to_tensor(points.Z)
    gram = tf.sparse.sparse_dense_matmul(near.features, tf.transpose(z))  # (B, M)
    k = tf.sparse.sparse_dense_matmul(near.mean, kernel.base(gram))  # Eq. 16, (n, M)
    return tf.transpose(k)


def sparse_tensor(matrix: sp.spmatrix) -> tf.SparseTensor:
    coo = matrix.tocoo()
    indices = np.stack([coo.row, coo.col], axis=1).astype(np.int64)
    values = coo.data.astype(gpflow.default_float())
    return tf.sparse.reorder(tf.SparseTensor(indices, values, coo.shape))


def as_inputs(nodes: np.ndarray) -> np.ndarray:
    """Node indices as GPflow's inputs, (n, 1): floats, as its mean function takes their type."""
    if nodes.max() >= 2**24:
        raise ValueError(f"node {nodes.max()} has no exact float32: this graph is too large")
    return nodes[:, None].astype(gpflow.default_float())


def load(path: Path) -> dict:
    """The graph with TF-IDF features (smoothed idf, rows of length one)."""
    data = dict(np.load(path))
    shape = tuple(data["x_shape"])
    x = sp.csr_matrix((data["x_data"], data["x_indices"], data["x_indptr"]), shape=shape)
    x = x.astype(np.float64)
    document_frequency = np.bincount(x.indices, minlength=shape[1])
    x = x @ sp.diags(np.log((1 + shape[0]) / (1 + document_frequency)) + 1)
    length = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
    data["x"] = (sp.diags(1 / np.where(length > 0, length, 1)) @ x).tocsr()
    i, j = data["edges"].T
    half = sp.coo_matrix((np.ones(len(i)), (i, j)), shape=(shape[0], shape[0]))
    data["adjacency"] = (half + half.T).tocsr()
    return data


def build(data: dict, seed: int) -> gpflow.models.SVGP:
    rng = np.random.default_rng(seed)
    m = len(data["train"])
    z, _ = kmeans2(data["x"].toarray(), m, minit="points", seed=rng, missing="warn")
    classes = int(data["y"].max()) + 1
    kernel = NeighbourMeanKernel(data["x"], data["adjacency"], offset=abs(rng.normal(5.0, 1.0)))
    return gpflow.models.SVGP(
        kernel,
        gpflow.likelihoods.MultiClass(classes),  # robust-max, epsilon 1e-3
        FeaturePoints(z.astype(gpflow.default_float())),
        num_latent_gps=classes,
        whiten=True,
    )


class Trainer:
    """Adam on the ELBO, one compiled function a step; keeps the best parameters seen."""

    def __init__(self, model: gpflow.models.SVGP, data: dict):
        nodes = as_inputs(data["train"])
        labels = data["y"][data["train"]][:, None]
        self._variables = model.trainable_variables
        self._start = [v.numpy() for v in self._variables]
        # The legacy Adam updates each variable by one fused op; the newer ones take several.
        self._optimiser = tf_keras.optimizers.legacy.Adam(LEARNING_RATE)
        loss = model.training_loss_closure((nodes, labels), compile=False)

        # One compiled loop over the steps was no faster; XLA (which lacks sparse products) slower.
        @tf.function
        def step() -> None:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(self._variables)
                value = loss()
            gradients = tape.gradient(value, self._variables)
            self._optimiser.apply_gradients(zip(gradients, self._variables, strict=True))

        self._step = step
        self._elbo = tf.function(lambda: -loss())

    def compile(self) -> float:
        """Traces and compiles by one step, taken back; returns the ELBO at the start."""
        self._step()
        self.reset()
        return float(self._elbo())

    def reset(self) -> None:
        for variable, value in zip(self._variables, self._start, strict=True):
            variable.assign(value)
        for variable in self._optimiser.variables():
            variable.assign(tf.zeros_like(variable))

    def train(self, steps: int) -> float:
        """Runs the recipe for `steps` steps; returns the ELBO of the parameters it leaves."""
        best, kept = -np.inf, self._start
        for done in range(0, steps, ELBO_EVERY):
            for _ in range(min(ELBO_EVERY, steps - done)):
                self._step()
            elbo = float(self._elbo())
            if elbo > best:
                best, kept = elbo, [v.numpy() for v in self._variables]
        for variable, value in zip(self._variables, kept, strict=True):
            variable.assign(value)
        return best


def check(data: dict, model: gpflow.models.SVGP) -> None:
    """Holds the covariances to Eq. 12 and 16 written as loops over neighbours."""
    x, adjacency = data["x"].toarray(), data["adjacency"].toarray()
    offset, z = float(model.kernel.offset.numpy()), model.inducing_variable.Z.numpy()
    hub = int(adjacency.sum(axis=1).argmax())
    nodes = np.array([0, 1, 2, 139, 2000 % len(x), hub])

    def bag(n: int) -> list[int]:
        return [n, *np.flatnonzero(adjacency[n])]

    def cov_hh(m: int, n: int) -> float:
        pairs = [(x[i] @ x[j] + offset) ** 3 for i in bag(m) for j in bag(n)]
        return sum(pairs) / (len(bag(m)) * len(bag(n)))

    def cov_hu(n: int, point: np.ndarray) -> float:
        return sum((x[i] @ point + offset) ** 3 for i in bag(n)) / len(bag(n))

    expected = np.array([[cov_hh(m, n) for n in nodes] for m in nodes])
    column = as_inputs(nodes)
    np.testing.assert_allclose(model.kernel(column).numpy(), expected, rtol=2e-5)
    np.testing.assert_allclose(
        model.kernel(column[:2], column[2:]).numpy(), expected[:2, 2:], rtol=2e-5
    )
    np.testing.assert_allclose(
        model.kernel(column, full_cov=False).numpy(), np.diag(expected), rtol=2e-5
    )
    kuf = gpflow.covariances.Kuf(model.inducing_variable, model.kernel, column).numpy()
    expected = np.array([[cov_hu(n, point) for n in nodes] for point in z[:5]])
    np.testing.assert_allclose(kuf[:5], expected, rtol=2e-5)
    kuu = gpflow.covariances.Kuu(model.inducing_variable, model.kernel).numpy()
    expected = np.array([[(a @ b + offset) ** 3 for b in z[:5]] for a in z[:5]])
    np.testing.assert_allclose(kuu[:5, :5], expected, rtol=2e-5)


def median_time(function, repeats: int) -> tuple[float, list[float]]:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="only check the covariances")
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)

    data = load(options.data)
    start = time.perf_counter()
    model = build(data, options.seed)
    seconds_kmeans = time.perf_counter() - start
    if options.check:
        check(data, model)
        print(json.dumps({"check": "ok"}))
        return

    start = time.perf_counter()
    trainer = Trainer(model, data)
    elbo_start = trainer.compile()
    seconds_compile = time.perf_counter() - start

    per_step, elbo_end = [], elbo_start
    for _ in range(options.repeats):
        trainer.reset()
        start = time.perf_counter()
        elbo_end = trainer.train(options.steps)
        per_step.append((time.perf_counter() - start) / options.steps)

    test = as_inputs(data["test"])
    predict = tf.function(lambda: model.predict_y(test)[0])
    start = time.perf_counter()
    predict()
    seconds_predict_compile = time.perf_counter() - start
    seconds_predict, _ = median_time(lambda: predict().numpy(), options.repeats)
    accuracy = float((predict().numpy().argmax(axis=1) == data["y"][data["test"]]).mean())

    report = {
        "peer": "gpflow",
        "seconds_per_step": float(np.median(per_step)),
        "seconds_per_step_all": per_step,
        "step_count": options.steps,
        "repeats": options.repeats,
        "threads": options.threads,
        "seconds_kmeans": seconds_kmeans,
        "seconds_compile": seconds_compile,
        "seconds_predict": seconds_predict,
        "seconds_predict_compile": seconds_predict_compile,
        "elbo_start": elbo_start,
        "elbo_end": elbo_end,
        "offset_end": float(model.kernel.offset.numpy()),
        "accuracy_after": accuracy,
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("gpflow", "tensorflow", "numpy", "scipy")},
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
