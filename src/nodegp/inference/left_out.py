"""What a fitted q says of labels without them: the sites of a group are divided out together.

Labels that leave one at a time tilt a class that has few: of balanced labels, the one that is left
out is always of the class that has become the smallest. Groups with a label of each class do not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from nodegp.gains import latent_blocks
from nodegp.inference.base import Fit
from nodegp.posterior import Marginals

__all__ = ["leave_groups_out"]

_SMALLEST_VARIANCE = 1e-12


@torch.no_grad()
def leave_groups_out(fit: Fit, groups: np.ndarray) -> Marginals:
    """q(h) at each label without the labels of its group, (O, L) each; those of a group below zero
    stay as they are."""
    mean, var = (part.clone() for part in fit.label_marginals)
    members = [torch.from_numpy(np.flatnonzero(groups == g)) for g in np.unique(groups) if g >= 0]
    for latents, gain in _gains(fit):
        lambda2 = fit.sites.lambda2[latents]
        for group in members:
            inside = _inside(fit, gain, lambda2, group)
            # Cov without them: (S^-1 - lambda2)^-1 of the group's posterior covariance S.
            eye = torch.eye(len(group), dtype=inside.dtype)
            system = eye - inside * lambda2[:, None, group]
            covariance = torch.linalg.solve(system, inside)
            alpha = fit.alpha[group, latents].mT[:, :, None]
            own = covariance.diagonal(dim1=1, dim2=2)
            known = inside.diagonal(dim1=1, dim2=2)
            # Negative sites of others may leave nothing that is a Gaussian: then nothing is known.
            usable = ((own > 0) & own.isfinite()).mT
            shift = (covariance @ alpha)[:, :, 0].mT
            place = group[:, None], torch.arange(len(gain)) + (latents.start or 0)
            before = fit.label_marginals.mean[place]
            mean[place] = torch.where(usable, before - shift, torch.zeros_like(before))
            rest = fit.label_marginals.var[place] - known.mT
            widened = (rest + own.mT).clamp_min(_SMALLEST_VARIANCE)
            var[place] = torch.where(usable, widened, fit.label_marginals.var[place])
    return Marginals(mean, var)


def _gains(fit: Fit) -> Iterator[tuple[slice, Tensor]]:
    posterior = fit.posterior
    for latents in latent_blocks(posterior.n_latents, posterior.n_inducing):
        yield latents, posterior.gain[latents]


def _inside(fit: Fit, gain: Tensor, lambda2: Tensor, group: Tensor) -> Tensor:
    """The part of the posterior covariance among a group's labels that u carries, (L, n, n)."""
    if fit.label_projection is not None:
        W = fit.label_projection[:, group]
        return W.mT @ W - W.mT @ gain @ W
    # The gain is S A^-1 S with S^2 = lambda2, and the covariance S^-1 (I - A^-1) S^-1.
    root = lambda2[:, group].sqrt()
    scale = root[:, :, None] * root[:, None, :]
    eye = torch.eye(len(group), dtype=gain.dtype)
    return (eye - gain[:, group][:, :, group] / scale) / scale
