"""Bounds on the mean of scores in [0, 1] by betting against every value that the mean might have."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.statistics._arguments import levels, within
from shiftproof.types import FloatArray

__all__ = ["betting_lower", "betting_upper"]

_MOST = 0.75
"""Share of the capital that a bet may lose at most."""
_ROUNDS = 40
_ROUNDING = 1e-9
"""Log of capital that is taken for rounding: evidence that is there only by rounding is none."""


def betting_lower(values: ArrayLike, alpha: float) -> FloatArray:
    """Betting lower bound on an expectation, from independent scores in [0, 1] along the last axis.

    Holds with probability at least ``1 - alpha`` for scores in an order that does not depend on their values, and at
    every moment at once if the scores come one after the other. Much closer than `bernstein_lower` for few scores.

    A gambler who bets that the mean is above m, with stakes that depend on earlier scores alone, has capital
    ``prod(1 + b_t (x_t - m))``, which reaches 1 / alpha with probability alpha at most if the mean is m (Ville). The
    bound is the smallest m that is not refuted so; capital falls in m, so that bisection finds it, and errs below.
    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2023, arXiv:2010.09686).

    >>> scores = np.tile([0.9, 1.0], 100)
    >>> float(betting_lower(scores, alpha=0.01).round(3)), float(np.round(scores.mean(), 3))
    (0.92, 0.95)
    """
    score, level = within("values", values), float(levels(alpha))
    if score.ndim < 1 or not score.shape[-1]:
        raise UsageError(f"values of shape {score.shape} hold no score along the last axis")
    threshold, stakes = -np.log(level) + _ROUNDING, _stakes(score, level)

    def refuted(mean: FloatArray) -> FloatArray:
        # small stakes where the mean is small, so that no score can take more than a part of the capital
        bets = np.minimum(stakes, _MOST / np.maximum(mean, 1e-300)[..., None])
        capital = np.log1p(bets * (score - mean[..., None])).cumsum(-1)
        return np.asarray(capital.max(-1) >= threshold)

    low, high = np.zeros(score.shape[:-1]), np.ones(score.shape[:-1])
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        below = refuted(middle)
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return low


def betting_upper(values: ArrayLike, alpha: float) -> FloatArray:
    """Betting upper bound; the mirror image of `betting_lower`. At most 1.

    >>> float(betting_upper(np.tile([0.0, 0.1], 100), alpha=0.01).round(3))
    0.08
    """
    return 1 - betting_lower(1 - within("values", values), alpha)


def _stakes(score: FloatArray, alpha: float) -> FloatArray:
    """What is staked on each score, by the mean and variance of those before it: the best stake for their number."""
    count = score.shape[-1]
    seen = np.arange(1, count + 1)
    means = (0.5 + score.cumsum(-1)) / (seen + 1)
    variances = (0.25 + ((score - means) ** 2).cumsum(-1)) / (seen + 1)
    # the first stake knows nothing: half of the range in either direction
    before = np.concatenate([np.full((*score.shape[:-1], 1), 0.25), variances[..., :-1]], -1)
    return np.asarray(np.sqrt(2 * np.log(1 / alpha) / (count * before)))
