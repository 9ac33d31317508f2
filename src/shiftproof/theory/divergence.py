"""The worst share within a divergence ball: other mixes of the same samples, such as more of one kind of patient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["DIVERGENCES", "chi_square_share", "hellinger_share", "kl_share", "total_variation_share"]

_HALVINGS = 80


def hellinger_share(share: ArrayLike, rho: ArrayLike) -> FloatArray:
    """The least share on any Q within Hellinger distance `rho` of P, if it is `share` on P.

    A question with two answers turns every divergence into one of two coins: cos^2(arccos sqrt(m) + arccos(1 - rho^2)),
    0 beyond a right angle. Two laws that share no sample have distance 1, where nothing is left.

    >>> float(hellinger_share(0.9, 0.1).round(4))
    0.8003
    """
    m, distance = _checked(share, rho, 1.0, "a Hellinger distance")
    angle = np.arccos(np.sqrt(m)) + np.arccos(1 - distance**2)
    return np.where(angle >= np.pi / 2, 0.0, np.cos(angle) ** 2)


def total_variation_share(share: ArrayLike, distance: ArrayLike) -> FloatArray:
    """The least share on any Q within total variation `distance`: share - distance.

    >>> float(total_variation_share(0.9, 0.1).round(4))
    0.8
    """
    m, tv = _checked(share, distance, 1.0, "a total variation")
    return np.maximum(m - tv, 0.0)


def chi_square_share(share: ArrayLike, divergence: ArrayLike) -> FloatArray:
    """The least share on any Q with chi^2(Q | P) of at most `divergence` c: m - sqrt(c m (1 - m)).

    >>> float(chi_square_share(0.9, 0.1).round(4))
    0.8051
    """
    m, c = _checked(share, divergence, np.inf, "a chi-square divergence")
    return np.maximum(m - np.sqrt(c * m * (1 - m)), 0.0)


def kl_share(share: ArrayLike, divergence: ArrayLike) -> FloatArray:
    """The least share on any Q with KL(Q | P) of at most `divergence`, in nats; found by bisection, never above it.

    >>> float(kl_share(0.9, 0.1).round(4))
    0.7431
    """
    m, most = _checked(share, divergence, np.inf, "a KL divergence")
    low, high = np.zeros(m.shape), m.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        inside = _coins(middle, m) <= most
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    # the lower end: what is reported is at most the least share
    return np.where(_coins(np.zeros(m.shape), m) <= most, 0.0, low)


def _coins(q: FloatArray, m: FloatArray) -> FloatArray:
    """KL of two coins; infinite where q gives weight to what m does not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = xlogy(q, q) - xlogy(q, m) + xlogy(1 - q, 1 - q) - xlogy(1 - q, 1 - m)
    return np.where(np.isnan(value), np.inf, value)


def _checked(share: ArrayLike, size: ArrayLike, most: float, name: str) -> tuple[FloatArray, FloatArray]:
    m, sizes = np.broadcast_arrays(np.asarray(share, np.float64), np.asarray(size, np.float64))
    if not bool(np.all((m >= 0) & (m <= 1))):
        raise UsageError(f"the share is {share!r}; it lies in [0, 1]")
    if not bool(np.all((sizes >= 0) & (sizes <= most))):
        raise UsageError(f"{name} is {size!r}; it lies in [0, {most:g}]")
    return m, sizes


DIVERGENCES: dict[str, Callable[[ArrayLike, ArrayLike], FloatArray]] = {
    "total variation": total_variation_share,
    "Hellinger": hellinger_share,
    "chi-square": chi_square_share,
    "KL": kl_share,
}
"""The maps by the name of their ball."""
