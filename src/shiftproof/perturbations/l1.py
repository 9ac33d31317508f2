"""Steps and projections in the part of an l1 ball that is in [0, 1], where a pixel at an end can move one way only."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["project_in_box", "sparse_direction", "worst_linear_change"]

_NO_ROOM = 1e-6
"""A pixel nearer than this to the end of its range is at the end."""
_ROUNDS, _EXACT = 60, 1e-12


def project_in_box(delta: Tensor, inputs: Tensor, eps: float | Tensor) -> Tensor:
    """Nearest changes (N x ...) of l1 norm at most `eps`, one for all or N of them, that keep `inputs` in [0, 1].

    Each number goes towards 0 by one amount and no farther from 0 than its end of the range; the amount is the smallest
    with which the norm is at most eps (Croce & Hein, "Mind the box: l1-APGD for sparse adversarial attacks on image
    classifiers", 2021, arXiv:2103.01208). Exact up to rounding.

    >>> project_in_box(torch.tensor([[2.0, 2.0, 0.1]]), torch.tensor([[0.7, 0.2, 0.5]]), 1.0)
    tensor([[0.3000, 0.7000, 0.0000]])
    """
    flat, start = delta.flatten(1).double(), inputs.flatten(1).double()
    radii = torch.as_tensor(eps, dtype=torch.float64, device=delta.device).reshape(-1, 1).expand(len(flat), 1)
    sizes, ends = flat.abs(), torch.where(flat > 0, 1 - start, start).clamp(min=0)
    kept = torch.minimum(sizes, ends)
    beyond = torch.nonzero(kept.sum(1) > radii[:, 0])[:, 0]
    if len(beyond):
        some, caps = sizes[beyond], ends[beyond]
        kept[beyond] = torch.minimum((some - _amount(some, caps, radii[beyond])).clamp(min=0), caps)
    return (flat.sign() * kept).to(delta.dtype).reshape(delta.shape)


def _amount(sizes: Tensor, caps: Tensor, radii: Tensor) -> Tensor:
    """What is taken off all sizes (N x D) before they are capped, so that their sums are the radii (N x 1).

    Newton's method between two bounds: the sum is piecewise linear in the amount, so that it ends at the exact one. It
    is many times as fast as sorting the places where the slope changes.
    """
    low, high = torch.zeros_like(radii), sizes.amax(1, keepdim=True)
    amount = low
    for _ in range(_ROUNDS):
        left = (sizes - amount).clamp(min=0)
        excess = torch.minimum(left, caps).sum(1, keepdim=True) - radii
        above, solved = excess > _EXACT * radii, excess.abs() <= _EXACT * radii
        low, high = torch.where(above, amount, low), torch.where(above, high, amount)
        if bool(solved.all()):
            break
        slope = ((left > 0) & (left < caps)).sum(1, keepdim=True)
        guess = amount + excess / slope.clamp(min=1)
        inside = (slope > 0) & (guess > low) & (guess < high)
        amount = torch.where(solved, amount, torch.where(inside, guess, (low + high) / 2))
    # on this side the sum is no larger than the radius, but for rounding
    return high


def sparse_direction(gradient: Tensor, counts: Tensor, points: Tensor | None = None) -> Tensor:
    """Changes of l1 norm 1 (N x ...): the signs of the largest numbers of each gradient, `counts` (N) of them.

    With `points`, numbers that are at the end of [0, 1] to which the gradient points are left out: Tramer & Boneh,
    "Adversarial training and robustness for multiple perturbations" (2019, arXiv:1904.13000). Of equal numbers at the
    end of the count all move; where the gradient is 0 nothing does.
    """
    flat = gradient.flatten(1)
    sizes = flat.abs()
    if points is not None:
        here = points.flatten(1)
        room = torch.where(flat > 0, 1 - here, here)
        sizes = torch.where(room > _NO_ROOM, sizes, 0)
    counts = counts.to(flat.device).clamp(1, flat.shape[1])
    smallest = sizes.topk(int(counts.max()), 1).values.gather(1, counts[:, None] - 1)
    moved = torch.where((sizes >= smallest) & (sizes > 0), flat.sign(), 0)
    return (moved / moved.abs().sum(1, keepdim=True).clamp(min=1)).reshape(gradient.shape)


def worst_linear_change(weights: Tensor, inputs: Tensor, eps: float | Tensor) -> Tensor:
    """Changes (N x ...) that add most along `weights` (N x ...), within l1 `eps` and [0, 1].

    A fractional knapsack: numbers of the largest weights go to the end of their range until the budget is used up.

    >>> worst_linear_change(torch.tensor([[3.0, -2.0, 1.0]]), torch.tensor([[0.75, 0.5, 0.5]]), 0.5)
    tensor([[ 0.2500, -0.2500,  0.0000]])
    """
    flat, start = weights.flatten(1), inputs.flatten(1)
    order = flat.abs().argsort(dim=1, descending=True, stable=True)
    room = torch.where(flat > 0, 1 - start, start).gather(1, order)
    radii = torch.as_tensor(eps, dtype=room.dtype, device=room.device).reshape(-1, 1)
    spent = (radii - (room.cumsum(1) - room)).clamp(min=0)
    change = torch.zeros_like(flat).scatter(1, order, torch.minimum(room, spent))
    return (flat.sign() * change).reshape(weights.shape)
