"""What labels take from the prior's variance: a matrix for each latent, in w-space as
:mod:`nodegp.posterior` has it. All of them, (L, M, M), are kept where that is little. With hundreds
of classes it is gigabytes: then they are made from the sites, a few latents at a time, or kept as
what all classes share and what is each one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nodegp.budget import blocks, budget
from nodegp.declared import check_shapes, require
from nodegp.linalg import QuadraticForms, by_threads, not_positive_definite

__all__ = [
    "OwnClassGains",
    "SiteGains",
    "exact_factor",
    "exact_gain",
    "latent_blocks",
    "sum_by_latent",
    "whitened_factor",
    "whitened_gain",
]


def latent_blocks(n_latents: int, n_inducing: int) -> Iterator[slice]:
    """Latents to work on at a time: all, where a fit may keep a matrix for each."""
    if n_latents * n_inducing**2 <= budget.fit:
        return iter([slice(0, n_latents)])
    return blocks(n_latents, n_inducing**2, budget.passing)


def exact_factor(K: Tensor, lambda2: Tensor) -> tuple[Tensor, Tensor]:
    """A^-1 of each latent for ``A = I + S K S`` with S^2 = lambda2, and 0.5 log |A| of them all:
    K is neither inverted nor factorised."""
    S = lambda2.sqrt()
    A = (S[:, :, None] * K).mul_(S[:, None, :])
    A.diagonal(dim1=1, dim2=2).add_(1.0)
    A_inverse, log_diagonal, failed = by_threads(_inverted, A)
    if failed.any():
        raise not_positive_definite(K, "covariance of the labelled nodes", "with its sites")
    return A_inverse, log_diagonal.sum()


def _inverted(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Inverses, logs of the diagonals of their Cholesky factors, and which have none."""
    chol_A, failed = torch.linalg.cholesky_ex(A)
    return torch.cholesky_inverse(chol_A), chol_A.diagonal(dim1=1, dim2=2).log(), failed


def whitened_factor(W: Tensor, lambda2: Tensor) -> tuple[Tensor, Tensor]:
    """The Cholesky factor of ``B = I + W diag(lambda2) W^T`` of each latent, and 0.5 log |B| of
    them all; labels in blocks."""
    n_latents, n_inducing = len(lambda2), len(W)
    B = torch.diag_embed(W.new_ones(n_latents, n_inducing))
    for block in blocks(W.shape[1], n_latents * n_inducing, budget.passing):
        Wb = W[:, block]
        B = torch.baddbmm(B, Wb * lambda2[:, None, block], Wb.mT.expand(n_latents, -1, -1))
    chol_B, failed = torch.linalg.cholesky_ex(B)
    if failed.any():  # negative sites went too far: no posterior at all, so no step there
        chol_B = torch.full_like(chol_B, torch.nan)
    return chol_B, chol_B.diagonal(dim1=1, dim2=2).log().sum()


def exact_gain(A_inverse: Tensor, lambda2: Tensor) -> Tensor:
    """S A^-1 S, which is (K + diag(lambda2)^-1)^-1."""
    S = lambda2.sqrt()
    return S[:, :, None] * A_inverse * S[:, None, :]


def whitened_gain(chol_B: Tensor) -> Tensor:
    """I - B^-1."""
    return torch.eye(chol_B.shape[-1], dtype=chol_B.dtype) - torch.cholesky_inverse(chol_B)


@dataclass(frozen=True, eq=False)
class SiteGains:
    """Gains as what they are made of; ``gains[latents]`` makes a range of them, (l, M, M)."""

    labels: Tensor  # (M, M) K of the labels, or (M, O) W if q is in whitened form
    lambda2: Tensor  # (L, O)
    whitened: bool

    def __post_init__(self) -> None:
        check_shapes(self, labels="M O", lambda2="L O")
        # Row by row, as a file holds them: another order in memory gives other last digits.
        for name in ("labels", "lambda2"):
            object.__setattr__(self, name, getattr(self, name).contiguous())

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.lambda2), len(self.labels), len(self.labels)

    @property
    def dtype(self) -> torch.dtype:
        return self.labels.dtype

    def __getitem__(self, latents: slice) -> Tensor:
        lambda2 = self.lambda2[latents]
        if self.whitened:
            return whitened_gain(whitened_factor(self.labels, lambda2)[0])
        return exact_gain(exact_factor(self.labels, lambda2)[0], lambda2)

    def smallest(self) -> SiteGains | Tensor:
        """This, or all gains where they take no more room: of few points and many labels."""
        n_latents, n_inducing = len(self.lambda2), len(self.labels)
        if n_latents * n_inducing**2 > self.labels.numel() + self.lambda2.numel():
            return self
        return torch.cat([self[latents] for latents in latent_blocks(n_latents, n_inducing)])


@dataclass(frozen=True, eq=False)
class OwnClassGains:
    """Gains of latents that are all the same but for the labels of their own class, each of which
    adds a direction to its class's: ``common + sum_j own_j own_j^T``."""

    common: Tensor  # (M, M)
    own: Tensor  # (M, O)
    latent: Tensor  # (O,) which one a label's class has
    n_latents: int

    def __post_init__(self) -> None:
        check_shapes(self, {"M": len(self.common)}, common="M M", own="M O", latent="O")
        latents = self.latent
        is_whole = not latents.is_floating_point() and not latents.is_complex()
        require(is_whole, "latents of labels are no whole numbers")
        in_range = ((latents >= 0) & (latents < self.n_latents)).all()
        require(in_range, f"a label's latent is none of {self.n_latents}")
        for name in ("common", "own", "latent"):
            object.__setattr__(self, name, getattr(self, name).contiguous())

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.n_latents, len(self.common), len(self.common)

    @property
    def dtype(self) -> torch.dtype:
        return self.common.dtype

    def __getitem__(self, latents: slice) -> Tensor:
        every = range(self.n_latents)[latents]
        own = (self.own[:, self.latent == latent] for latent in every)
        return torch.stack([self.common + part @ part.mT for part in own])

    def forms(self, right: Tensor | None, kind: torch.dtype) -> Callable[[Tensor], Tensor]:
        """``w^T gain w`` as a function of rows w, (n, M) -> (n, L); of ``right w`` if that is
        there."""
        common, own = self.common, self.own
        if right is not None:
            common, own = right.mT @ common @ right, right.mT @ own
        of_common, own = QuadraticForms(common[None].to(kind)), own.to(kind)

        def forms(rows: Tensor) -> Tensor:
            of_own = sum_by_latent((rows @ own).square_(), self.latent, self.n_latents)
            return of_own.add_(of_common(rows))

        return forms

    def between(self, a: Tensor, b: Tensor) -> Tensor:
        """``a^T gain b`` for columns a and b, (L, a, b)."""
        own_a, own_b = (side.mT @ self.own for side in (a, b))
        result = (a.mT @ self.common @ b).repeat(self.n_latents, 1, 1)
        for latent in self.latent.unique().tolist():
            of_class = self.latent == latent
            result[latent] += own_a[:, of_class] @ own_b[:, of_class].mT
        return result


def sum_by_latent(values: Tensor, latent: Tensor, n_latents: int) -> Tensor:
    """Sums of columns that belong to the same latent, (n, O) -> (n, L)."""
    return values.new_zeros(len(values), n_latents).index_add_(1, latent, values)
