"""Exact (Clopper-Pearson) bounds on a success probability."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from shiftproof.errors import UsageError
from shiftproof.types import Estimate, FloatArray

__all__ = ["interval", "lower_bound", "upper_bound"]


def lower_bound(k: ArrayLike, n: ArrayLike, alpha: float) -> FloatArray:
    """One-sided Clopper-Pearson lower bound on a success probability, from `k` successes in `n` trials.

    Holds with probability at least ``1 - alpha`` for an `n` fixed in advance. `k` and `n` broadcast; the result has
    their shape.

    >>> float(lower_bound(99_000, 100_000, alpha=0.001).round(6))
    0.988989
    """
    successes, trials = _checked(k, n, alpha)
    # beta.ppf is nan at k = 0, where the bound is 0 by definition
    return np.where(successes == 0, 0.0, beta.ppf(alpha, np.maximum(successes, 1), trials - successes + 1))


def upper_bound(k: ArrayLike, n: ArrayLike, alpha: float) -> FloatArray:
    """One-sided Clopper-Pearson upper bound; the mirror image of `lower_bound`.

    >>> float(upper_bound(1_000, 100_000, alpha=0.001).round(6))
    0.011011
    """
    successes, trials = _checked(k, n, alpha)
    failures = trials - successes
    return np.where(failures == 0, 1.0, beta.isf(alpha, successes + 1, np.maximum(failures, 1)))


def interval(k: int, n: int, level: float = 0.95) -> Estimate:
    """The proportion k / n with its two-sided Clopper-Pearson interval.

    >>> interval(16, 100).format()
    '16.0% (9.4% to 24.7%)'
    """
    tail = (1 - level) / 2
    low, high = float(lower_bound(k, n, tail)), float(upper_bound(k, n, tail))
    return Estimate(k / n, low, high, n, level, "clopper-pearson")


def _checked(k: ArrayLike, n: ArrayLike, alpha: float) -> tuple[FloatArray, FloatArray]:
    successes, trials = np.broadcast_arrays(np.asarray(k, np.float64), np.asarray(n, np.float64))
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is {alpha}; it is a probability of error strictly between 0 and 1, such as 0.001")
    whole = np.all(successes == np.floor(successes)) and np.all(trials == np.floor(trials))
    if not (whole and np.all((trials >= 1) & (successes >= 0) & (successes <= trials))):
        raise UsageError("counts are whole numbers with 0 <= k <= n and n >= 1")
    return successes, trials
