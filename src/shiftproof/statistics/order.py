"""Which order statistic bounds a quantile: confidence without a distribution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from shiftproof.statistics._arguments import broadcast, levels, sizes, within
from shiftproof.types import FloatArray, IntArray

__all__ = ["quantile_lower_index", "quantile_upper_index"]


def quantile_lower_index(n: ArrayLike, p: ArrayLike, alpha: ArrayLike) -> IntArray:
    """The largest k such that the k-th smallest of `n` samples is at most the p-quantile.

    That holds with probability at least ``1 - alpha``, for independent samples of any distribution, with ties or
    without. k counts from 1; 0 means "not available": no order statistic is a bound at this level. Arguments broadcast.

    >>> quantile_lower_index(500, [0.5, 0.1587, 0.001], alpha=1e-4)
    array([209,  51,   0])
    """
    samples, share, level = broadcast(sizes(n, least=1), within("p", p), levels(alpha))
    # 1 - alpha is a rounded number, alpha is not: never compare the other tail with 1 - alpha
    return _last(lambda k: binom.cdf(k - 1, samples, share) <= level, samples)


def quantile_upper_index(n: ArrayLike, p: ArrayLike, alpha: ArrayLike) -> IntArray:
    """The smallest k such that the k-th smallest of `n` samples is at least the p-quantile.

    The mirror image of `quantile_lower_index`; ``n + 1`` means "not available".

    >>> quantile_upper_index(500, [0.5, 0.8413, 0.999], alpha=1e-4)
    array([292, 450, 501])
    """
    samples, share, level = broadcast(sizes(n, least=1), within("p", p), levels(alpha))
    return _last(lambda k: binom.sf(k - 1, samples, share) > level, samples) + 1


def _last(holds: Callable[[IntArray], object], samples: FloatArray) -> IntArray:
    """The last of 0 ... n for which `holds`, which is true at 0, false at n + 1 and changes once."""
    low, high = np.zeros(samples.shape, np.int64), samples.astype(np.int64) + 1
    while np.any(high - low > 1):
        middle = (low + high) // 2
        held = np.asarray(holds(middle))
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return low
