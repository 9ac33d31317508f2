"""The mean of figures that were measured on samples of their own, with an interval made of their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from shiftproof.types import Estimate

__all__ = ["mean_of_independent"]


def mean_of_independent(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of figures of several targets that share neither samples nor trainings, each weighing the same.

    The sides of the intervals are added in squares (MOVER, as `over_seeds`). The interval is about the mean over these
    very targets, and says nothing of others. All intervals have one level.

    >>> one, other = Estimate(0.4, 0.3, 0.5, 100), Estimate(0.6, 0.5, 0.7, 50)
    >>> mean = mean_of_independent([one, other])
    >>> round(mean.value, 6), round(mean.low, 3), round(mean.high, 3), mean.n
    (0.5, 0.429, 0.571, 150)
    """
    if len(estimates) == 1:
        return estimates[0]
    count = len(estimates)
    value = math.fsum(one.value for one in estimates) / count
    below = math.sqrt(math.fsum((one.value - one.low) ** 2 for one in estimates)) / count
    above = math.sqrt(math.fsum((one.high - one.value) ** 2 for one in estimates)) / count
    first = estimates[0]
    method = f"mean of {count}: {first.method}"
    return replace(
        first, value=value, low=value - below, high=value + above, n=sum(one.n for one in estimates), method=method
    )
