"""The accuracy of one noisy draw, f(x + e) with Gaussian e, on every distribution near one that was measured."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, ndtr, ndtri

from shiftproof.errors import UsageError
from shiftproof.statistics import lower_bound
from shiftproof.theory.transport import check_distances, check_order
from shiftproof.types import FloatArray

__all__ = ["draw_share", "kumar_share", "screening_share"]

_SLOPES = 240
_BINS, _STEPS, _FEWER = 240, 240, 60
"""Where the inner minimum has no closed form: values of p, of t, and slopes."""


def draw_share(probability: ArrayLike, eps: ArrayLike, sigma: float, p: float = 1.0) -> FloatArray:
    """The share of right answers that one draw keeps within W_p `eps`, from each sample's probability of one.

    `probability` is P[f(x + e) = y], or lower bounds of it. In formulas, with z = Phi^-1(probability)::

        sup over l >= 0 of  E[min over t >= 0 of Phi(z - t / sigma) + l t^p] - l eps^p

    The bracket grows with the probability and lies in [0, 1]. For p = 1 its minimum is in closed form; otherwise it is
    bounded from below on every interval of a grid of t, since a minimum over points would err upwards. Any l is sound,
    so that the supremum is taken over a grid. For p = infinity every sample is moved by eps.

    >>> draw_share(np.full(4, 0.9), [0.0, 0.1], sigma=0.25).round(3)
    array([0.9  , 0.766])
    """
    order, share = check_order(p), _probabilities(probability)
    if not sigma > 0:
        raise UsageError(f"sigma is {sigma!r}; it should be above 0")
    asked = check_distances(eps)
    flat = asked.ravel()
    if math.isinf(order):
        z = ndtri(share)
        moved = [float(ndtr(z - one / sigma).mean()) for one in flat]
        return np.reshape(np.array(moved, np.float64), asked.shape)
    if order == 1:
        slopes = np.concatenate([np.geomspace(1e-3, 0.3989, _SLOPES), [0.4]]) / sigma
        means = _brackets(share, sigma, slopes).mean(1)
    else:
        slopes, means = _means_on_grid(share, sigma, order)
    values = (means[:, None] - slopes[:, None] * flat**order).max(0)
    # where eps is 0, a steep enough slope keeps everything
    found: FloatArray = np.where(flat == 0, share.mean(), np.maximum(values, 0.0))
    return found.reshape(asked.shape)


def kumar_share(share: ArrayLike, eps: ArrayLike, sigma: float) -> FloatArray:
    """The bound of Kumar et al. for W1 (and every W_p, which is larger), from the accuracy of one draw alone.

    share - erf(eps / (2 sqrt(2) sigma)). Kumar, Levine, Goldstein and Feizi, "Certifying model accuracy under
    distribution shifts" (2022, arXiv:2201.12440).

    >>> float(kumar_share(0.9, 0.1, sigma=0.25).round(3))
    0.741
    """
    lost = erf(check_distances(eps) / (2 * math.sqrt(2) * sigma))
    return np.maximum(np.asarray(share, np.float64) - lost, 0.0)


def screening_share(right: int, n: int, radius: ArrayLike, sigma: float, confidence: float = 0.95) -> FloatArray:
    """Accuracy of one draw that is guaranteed if every sample is moved by at most `radius`, from one pass a sample.

    `right` of `n` independent samples were right under one draw of noise *of their own*; samples that share a draw are
    right or wrong together, and the bound does not hold for them. Phi(Phi^-1(lower bound) - radius / sigma).

    >>> float(screening_share(900, 1_000, 0.1, sigma=0.25).round(3))
    0.785
    """
    least = float(lower_bound(right, n, 1 - confidence))
    return ndtr(ndtri(least) - check_distances(radius) / sigma)


def _brackets(share: FloatArray, sigma: float, slopes: FloatArray) -> FloatArray:
    """min over t >= 0 of Phi(z - t / sigma) + slope t, exactly, for every slope (rows) and sample (columns)."""
    # a slope that is steeper than the density anywhere leaves everything where it is: u = 0, and t has no say
    a = np.minimum(slopes * sigma * math.sqrt(2 * math.pi), 1.0)[:, None]
    u = -np.sqrt(-2 * np.log(a))
    t = np.maximum(sigma * (ndtri(share) - u), 0.0)
    # t is infinite where the probability is 1, and then not the minimum
    moved = np.where((t > 0) & (a < 1), ndtr(u) + slopes[:, None] * t, 1.0)
    return np.minimum(moved, share)


def _means_on_grid(share: FloatArray, sigma: float, order: float) -> tuple[FloatArray, FloatArray]:
    """Slopes, and the mean of the bracket at each, from below: probabilities are rounded down to a grid."""
    z = np.linspace(-6, 6, _BINS)
    levels, counts = np.concatenate([[0.0], ndtr(z)]), np.zeros(_BINS + 1)
    np.add.at(counts, np.searchsorted(levels, share, side="right") - 1, 1 / len(share))
    # a slope l is a length r = l^(-1/p) at which moving costs as much as there is to lose
    lengths = sigma * np.geomspace(0.05, 12, _FEWER)
    means = np.empty(_FEWER)
    for place, length in enumerate(lengths):
        t = length * np.linspace(0, 1, _STEPS)
        # on [t_i, t_i+1] the first term is least at its end, the second at its start
        kept = ndtr(z[:, None] - t[None, 1:] / sigma) + (t[:-1] / length) ** order
        least = np.minimum(kept.min(1), levels[1:])
        means[place] = counts[1:] @ least
    return lengths**-order, means


def _probabilities(values: ArrayLike) -> FloatArray:
    share = np.asarray(values, np.float64)
    if share.ndim != 1 or not len(share) or not bool(np.all((share >= 0) & (share <= 1))):
        raise UsageError("probabilities should be one number of [0, 1] for each sample, at least one")
    return share
