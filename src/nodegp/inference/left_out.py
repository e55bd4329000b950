"""What a fitted q says of labels without them: the sites of a group are divided out together.

Labels that leave one at a time tilt a class that has few: of balanced labels, the one that is left
out is always of the class that has become the smallest. Groups with a label of each class do not.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nodegp.gains import latent_blocks
from nodegp.inference.base import Fit
from nodegp.linalg import threads_for
from nodegp.posterior import Marginals

__all__ = ["leave_groups_out"]

_SMALLEST_VARIANCE = 1e-12


@torch.no_grad()
def leave_groups_out(fit: Fit, groups: np.ndarray) -> Marginals:
    """q(h) at each label without the labels of its group, (O, L) each; those of a group below zero
    stay as they are."""
    mean, var = (part.clone() for part in fit.label_marginals)
    members, is_member = _members(groups)
    posterior = fit.posterior
    for latents in latent_blocks(posterior.n_latents, posterior.n_inducing):
        lambda2 = fit.sites.lambda2[latents][:, members] * is_member  # (L, G, n)
        inside = _inside(fit, posterior.gain[latents], lambda2, members, is_member)
        # Cov without them: (S^-1 - lambda2)^-1 of the group's posterior covariance S.
        system = torch.eye(members.shape[1], dtype=inside.dtype) - inside * lambda2[:, :, None, :]
        with threads_for(members.shape[1]):  # many small systems: threads would only wait
            covariance = torch.linalg.solve(system, inside)
        alpha = fit.alpha.mT[latents][:, members] * is_member
        own, known = (part.diagonal(dim1=2, dim2=3) for part in (covariance, inside))
        shift = (covariance @ alpha[..., None])[..., 0]
        # Negative sites of others may leave nothing that is a Gaussian: then nothing is known.
        usable = (own > 0) & own.isfinite()
        before, spread = (part.mT[latents][:, members] for part in fit.label_marginals)
        without = torch.where(usable, before - shift, torch.zeros_like(before))
        widened = (spread - known + own).clamp_min(_SMALLEST_VARIANCE)
        place = members[is_member]
        mean[place, latents] = without[:, is_member].mT
        var[place, latents] = torch.where(usable, widened, spread)[:, is_member].mT
    return Marginals(mean, var)


def _members(groups: np.ndarray) -> tuple[Tensor, Tensor]:
    """The labels of each group, (G, n), and which of these places are taken: groups may differ in
    size."""
    lists = [np.flatnonzero(groups == group) for group in np.unique(groups[groups >= 0])]
    size = max((len(each) for each in lists), default=0)
    members, is_member = np.zeros((len(lists), size), np.int64), np.zeros((len(lists), size), bool)
    for row, each in enumerate(lists):
        members[row, : len(each)], is_member[row, : len(each)] = each, True
    return torch.from_numpy(members), torch.from_numpy(is_member)


def _inside(fit: Fit, gain: Tensor, lambda2: Tensor, members: Tensor, is_member: Tensor) -> Tensor:
    """The part of the posterior covariance among each group's labels that u carries, (L, G, n, n),
    with zeros at places that are not taken."""
    pairs = is_member[:, :, None] & is_member[:, None, :]
    if fit.label_projection is not None:
        W = fit.label_projection  # (M, O)
        left = W - gain @ W  # (L, M, O)
        return torch.einsum("mgi,lmgj->lgij", W[:, members], left[:, :, members]) * pairs
    # The gain is S A^-1 S with S^2 = lambda2, and the covariance S^-1 (I - A^-1) S^-1.
    root = torch.where(is_member, lambda2.sqrt(), 1.0)
    scale = root[..., :, None] * root[..., None, :]
    among = gain[:, members[:, :, None], members[:, None, :]]
    return (torch.eye(members.shape[1], dtype=gain.dtype) - among / scale) / scale * pairs
