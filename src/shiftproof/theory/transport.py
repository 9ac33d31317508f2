"""The worst accuracy within a Wasserstein distance, when every sample has a price at which it may be flipped."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["check_distances", "check_order", "unit_weights", "worst_share", "worst_share_at"]


def check_order(p: float) -> float:
    """The order of a Wasserstein distance: 1, 2, infinity, or any other number of at least 1."""
    order = float(p) if isinstance(p, int | float) and not isinstance(p, bool) else math.nan
    if not order >= 1:
        raise UsageError(f"p is {p!r}; the order of a Wasserstein distance is 1, 2 or math.inf")
    return order


def worst_share(reach: ArrayLike, eps: ArrayLike, p: float = 1.0, weights: ArrayLike | None = None) -> FloatArray:
    """The share that stays right if samples are moved by `eps` in the W_p mean; shaped like `eps`.

    `reach` is how far each sample must be moved before it is wrong: 0 for one that is wrong as it is, infinity for one
    that never is. The worst law moves the cheapest samples first. In formulas, with R the reach::

        sup over l >= 0 of  E[min(1, l R^p)] - l eps^p

    which is concave and piecewise linear in l with its kinks at l = 1 / R^p: the exact supremum takes one sort. For p =
    infinity it is the share with R > eps, strictly. `weights` (of sum 1) are those of the samples, equal unless told.

    >>> worst_share([1.0] * 9 + [0.0], [0.0, 0.1, 0.9])
    array([0.9, 0.8, 0. ])
    """
    order, radii = check_order(p), _reach(reach)
    asked = check_distances(eps)
    mass = np.full(len(radii), 1 / len(radii)) if weights is None else np.asarray(weights, np.float64)
    if math.isinf(order):
        ranked = np.argsort(radii, kind="stable")
        gone = np.concatenate([[0.0], np.cumsum(mass[ranked])])
        left = gone[-1] - gone[np.searchsorted(radii[ranked], asked, side="right")]
        return np.asarray(np.clip(left, 0.0, 1.0))
    never, priced = np.isinf(radii), (radii > 0) & np.isfinite(radii)
    kept = float(mass[never].sum())
    if not priced.any():
        return np.full(asked.shape, kept)
    ranked = np.flatnonzero(priced)[np.argsort(radii[priced], kind="stable")]
    # in units of the largest reach, so that no power of it overflows
    unit = float(radii[ranked[-1]])
    price, share = (radii[ranked] / unit) ** order, mass[ranked]
    # the power of a tiny reach may be 0, which can't be divided by
    price = np.maximum(price, np.finfo(np.float64).tiny)
    spent, others = np.cumsum(share * price), float(share.sum()) - np.cumsum(share)
    # twice the largest reach pays for everything
    budget = (np.minimum(asked, 2 * unit) / unit) ** order
    # the first sample that the budget does not pay for in full: there the slope in l changes its sign
    place = np.searchsorted(spent, budget, side="left")
    inside = np.minimum(place, len(price) - 1)
    value = (spent[inside] - budget) / price[inside] + others[inside]
    value = np.where(place < len(price), value, 0.0)
    found = np.where(asked == 0, float(share.sum()), value) + kept
    # no law may move a sample that reaches no farther than eps for more: powers that underflow would say otherwise
    return np.asarray(np.clip(np.minimum(found, worst_share(radii, asked, math.inf, mass)), 0.0, 1.0))


def worst_share_at(
    reach: ArrayLike, eps: ArrayLike, thresholds: ArrayLike, p: float, weights: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """The same bound before its supremum, for a few `thresholds` r in place of all l = 1 / r^p that were fixed before
    the data was seen: means (thresholds) of min(1, (R / r)^p) and what eps costs at each (thresholds x eps).

    A threshold of 0 is the share with R > 0, which says something of eps = 0 alone. For p = infinity the mean is the
    share with R > r, and the cost is infinite where r < eps.
    """
    order, radii, asked = check_order(p), _reach(reach), check_distances(eps)
    limits, mass = np.asarray(thresholds, np.float64), np.asarray(weights, np.float64)
    if math.isinf(order):
        means = (radii[None] > limits[:, None]) @ mass
        return means, np.where(limits[:, None] < asked.ravel(), np.inf, 0.0).reshape(len(limits), *asked.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(radii[None] > 0, radii[None] / limits[:, None], 0.0)
        cost = np.where(asked.ravel() > 0, asked.ravel() / limits[:, None], 0.0) ** order
    means = np.minimum(ratio, 1.0) ** order @ mass
    return means, cost.reshape(len(limits), *asked.shape)


def unit_weights(units: ArrayLike) -> FloatArray:
    """Weights (of sum 1) of samples by the unit that each belongs to: units weigh the same, and samples within one.

    >>> unit_weights(["a", "a", "b"])
    array([0.25, 0.25, 0.5 ])
    """
    numbers = np.unique(np.asarray(units), return_inverse=True)[1]
    sizes = np.bincount(numbers)
    return 1 / (len(sizes) * sizes[numbers])


def _reach(reach: ArrayLike) -> FloatArray:
    radii = np.asarray(reach, np.float64)
    if radii.ndim != 1 or not len(radii) or not bool(np.all(radii >= 0)):
        raise UsageError("radii should be one number of at least 0 for each sample, at least one")
    return radii


def check_distances(eps: ArrayLike) -> FloatArray:
    """Distances as an array of finite numbers of at least 0."""
    asked = np.asarray(eps, np.float64)
    if not bool(np.all((asked >= 0) & np.isfinite(asked))):
        raise UsageError(f"eps is {eps!r}; distances are finite numbers of at least 0")
    return asked
