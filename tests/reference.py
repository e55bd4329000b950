"""The naive twin: the paper's formulas as loops over nodes, neighbours and coordinates.

Nothing here imports the package or shares a trick with it. It is slow and meant to be read
beside the paper; the tests hold the fast code against it on small graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import kv

_GAUSS_LEGENDRE = [(float(t), float(w)) for t, w in zip(*leggauss(30), strict=True)]
BaseKernel = Callable[[np.ndarray, np.ndarray], float]

# --- base kernels, each of two vectors ------------------------------------------------------


def dot(x, y) -> float:
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += float(a) * float(b)
    return total


def squared_distance(x, y) -> float:
    total = 0.0
    for a, b in zip(x, y, strict=True):
        total += (float(a) - float(b)) ** 2
    return total


def constant(x, y, variance=1.0) -> float:
    return variance


def linear(x, y, variance=1.0) -> float:
    return variance * dot(x, y)


def polynomial(x, y, degree=3, variance=1.0, offset=1.0) -> float:
    value = 1.0
    for _ in range(degree):
        value *= variance * dot(x, y) + offset
    return value


def rbf(x, y, variance=1.0, lengthscale=1.0) -> float:
    return variance * math.exp(-squared_distance(x, y) / (2.0 * lengthscale**2))


def matern(x, y, nu=1.5, variance=1.0, lengthscale=1.0) -> float:
    """The general form with the Bessel function (Rasmussen & Williams, Eq. 4.14)."""
    r = math.sqrt(2.0 * nu * squared_distance(x, y)) / lengthscale
    if r == 0.0:
        return variance
    return variance * 2.0 ** (1.0 - nu) / math.gamma(nu) * r**nu * float(kv(nu, r))


def cosine(x, y, variance=1.0) -> float:
    norms = math.sqrt(dot(x, x)) * math.sqrt(dot(y, y))
    return 0.0 if norms == 0.0 else variance * dot(x, y) / norms


def arc_cosine(x, y, order=1, variance=1.0, weight=1.0, bias=1.0) -> float:
    """Cho & Saul (2009), Eq. 1, by its defining integral and not by its closed form.

    2 E[step(w.x) step(w.y) (w.x)^n (w.y)^n] over w ~ N(0, I). Only the plane of x and y
    matters; there w has a Rayleigh length, with E[r^2n] = 2^n n!, and a uniform direction.
    """
    x = [math.sqrt(weight) * float(a) for a in x] + [math.sqrt(bias)]
    y = [math.sqrt(weight) * float(b) for b in y] + [math.sqrt(bias)]
    length_x, length_y = math.sqrt(dot(x, x)), math.sqrt(dot(y, y))
    angle = math.acos(max(-1.0, min(1.0, dot(x, y) / (length_x * length_y))))
    # Both steps are one for directions between angle - pi/2 and pi/2 (x lies at 0).
    low, high = angle - math.pi / 2.0, math.pi / 2.0
    integral = 0.0
    for t, w in _GAUSS_LEGENDRE:
        phi = 0.5 * (high - low) * t + 0.5 * (high + low)
        integral += w * (math.cos(phi) * math.cos(phi - angle)) ** order
    integral *= 0.5 * (high - low) / (2.0 * math.pi)
    moment = 2.0**order * math.factorial(order)
    return variance * 2.0 * (length_x * length_y) ** order * moment * integral


def gram(kernel: BaseKernel, X, Y) -> np.ndarray:
    K = np.zeros((len(X), len(Y)))
    for i in range(len(X)):
        for j in range(len(Y)):
            K[i, j] = kernel(X[i], Y[j])
    return K


# --- the prior over a graph -----------------------------------------------------------------


def closed_neighbourhood(A: np.ndarray, n: int) -> list[tuple[int, float]]:
    """{n} and Ne(n), each with its weight: one for n itself, the edge's for a neighbour."""
    members = [(n, 1.0)]
    for l in range(len(A)):
        if l != n and A[n, l] > 0:
            members.append((l, float(A[n, l])))
    return members


def degree(A: np.ndarray, n: int) -> float:
    """D_n, the number of neighbours; the sum of the weights in a weighted graph."""
    return sum(weight for _, weight in closed_neighbourhood(A, n)) - 1.0


def pairwise_covariance(kernel: BaseKernel, A, X, m: int, n: int) -> float:
    """Cov(h_m, h_n), Eq. 12: every pair of a member of one neighbourhood and one of the other."""
    total = 0.0
    for i, weight_i in closed_neighbourhood(A, m):
        for j, weight_j in closed_neighbourhood(A, n):
            total += weight_i * weight_j * kernel(X[i], X[j])
    return total / ((1.0 + degree(A, m)) * (1.0 + degree(A, n)))


def prior_covariance(kernel: BaseKernel, A, X) -> np.ndarray:
    """The covariance matrix of h (Eq. 11), entry by entry from Eq. 12."""
    N = len(A)
    K = np.zeros((N, N))
    for m in range(N):
        for n in range(N):
            K[m, n] = pairwise_covariance(kernel, A, X, m, n)
    return K


def interdomain_covariance(kernel: BaseKernel, A, X, Z) -> np.ndarray:
    """Cov(h_n, f(z_m)) for every node and inducing point, Eq. 16, shape (N, M)."""
    K = np.zeros((len(A), len(Z)))
    for n in range(len(A)):
        for m in range(len(Z)):
            total = 0.0
            for l, weight in closed_neighbourhood(A, n):
                total += weight * kernel(X[l], Z[m])
            K[n, m] = total / (1.0 + degree(A, n))
    return K


def polynomial_feature_map(x, degree=3, variance=1.0, offset=1.0) -> np.ndarray:
    """phi with <phi(x), phi(x')> = (variance <x, x'> + offset)^degree: all its monomials.

    The multinomial theorem over offset and the D products x_i x'_i.
    """
    features = []
    for powers in product(range(degree + 1), repeat=len(x) + 1):
        if sum(powers) != degree:
            continue
        ways = math.factorial(degree)
        for power in powers:
            ways //= math.factorial(power)
        value = math.sqrt(ways) * math.sqrt(offset) ** powers[0]
        for coordinate, power in zip(x, powers[1:], strict=True):
            value *= (math.sqrt(variance) * float(coordinate)) ** power
        features.append(value)
    return np.array(features)


def mean_embedding(feature_map, A, X, n: int) -> np.ndarray:
    """mu_n, Eq. 13: the mean of the feature maps over the closed neighbourhood."""
    total = np.zeros_like(feature_map(X[n]))
    for j, weight in closed_neighbourhood(A, n):
        total = total + weight * feature_map(X[j])
    return total / (1.0 + degree(A, n))


# --- features and the likelihood ------------------------------------------------------------


def tfidf(counts: np.ndarray) -> np.ndarray:
    """Counts times ln((1 + N) / (1 + df)) + 1, each row then scaled to length one."""
    N, D = counts.shape
    out = np.zeros((N, D))
    for d in range(D):
        documents = 0
        for n in range(N):
            if counts[n, d] != 0:
                documents += 1
        for n in range(N):
            out[n, d] = counts[n, d] * (math.log((1.0 + N) / (1.0 + documents)) + 1.0)
    for n in range(N):
        length = math.sqrt(dot(out[n], out[n]))
        for d in range(D):
            out[n, d] = out[n, d] / length if length > 0 else 0.0
    return out


def robustmax_expectation_mc(y, mean, var, epsilon=1e-3, n=100_000, seed=0) -> np.ndarray:
    """E[log p(y | h)] under independent h_c ~ N(mean_c, var_c), by plain Monte Carlo.

    Robust-max: p(y | h) is 1 - epsilon if y is the largest entry of h and epsilon / (C - 1)
    if not. ``y`` (N,), ``mean`` and ``var`` (N, C); the answer is (N,), with a standard error
    of at most 0.5 |log odds| / sqrt(n) per entry.
    """
    generator = np.random.default_rng(seed)
    mean, var = np.asarray(mean, dtype=float), np.asarray(var, dtype=float)
    N, C = mean.shape
    out = np.zeros(N)
    for row in range(N):
        h = mean[row] + np.sqrt(var[row]) * generator.standard_normal((n, C))
        right = float(np.mean(h.argmax(axis=1) == int(y[row])))
        out[row] = right * math.log(1.0 - epsilon)
        if C > 1:
            out[row] += (1.0 - right) * math.log(epsilon / (C - 1))
    return out
