"""Intervals for the mean over several trainings of a model: they count what samples and what seeds add to its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtrit

from shiftproof.errors import UsageError
from shiftproof.types import Estimate, FloatArray

__all__ = ["over_seeds"]


def over_seeds(
    estimate: Estimate,
    per_seed: Sequence[float],
    limits: tuple[float, float] | None = None,
    *,
    less: Sequence[float] = (),
) -> Estimate:
    """The estimate with an interval that also counts how much the seeds differ, for models trained with other seeds.

    The first level of the hierarchy, samples or groups of them, is in `estimate`: an interval for the mean over the
    seeds at hand, whose units were drawn anew. The second level can't be drawn anew: of three seeds a bootstrap never
    leaves the range of the three, which holds the mean over all seeds with probability 3/4 at most. Its part is the t
    interval of the seeds' own values. The two parts are independent and are added in squares, each side for itself
    (MOVER: Zou and Donner, Construction of confidence limits about effect measures, 2008, doi:10.1002/sim.3095).

    Args:
        estimate: Of the mean over seeds, with its interval over samples.
        per_seed: The same figure of every seed alone.
        limits: What the figure can't leave: (0, 1) for a share.
        less: Where the estimate is a difference between two models that were trained apart, `per_seed` is the figure
            of every training of the first, and this that of the second. Their t intervals are added in squares too,
            which holds whatever the two variances are (Banerjee, On confidence interval for two-means problem based on
            separate estimates of variances and tabulated values of t-table, Sankhya A 23, 1961).

    >>> estimate = Estimate(0.9, 0.88, 0.92, 1000)
    >>> over_seeds(estimate, [0.9, 0.9, 0.9]) == replace(estimate, method="; 3 seeds")
    True
    >>> wider = over_seeds(estimate, [0.88, 0.9, 0.92], limits=(0, 1))
    >>> round(wider.low, 3), round(wider.high, 3)
    (0.846, 0.954)
    """
    if not len(per_seed):
        raise UsageError("an interval over seeds needs the figure of at least one")
    several = [np.asarray(one, np.float64) for one in (per_seed, less) if len(one) > 1]
    if not several:
        return estimate
    reach = np.hypot.reduce([_reach(one, estimate.level) for one in several])
    low = estimate.value - float(np.hypot(estimate.value - estimate.low, reach))
    high = estimate.value + float(np.hypot(estimate.high - estimate.value, reach))
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    seeds = " and ".join(str(len(one)) for one in (per_seed, less) if len(one))
    return replace(estimate, low=low, high=high, method=f"{estimate.method}; {seeds} seeds")


def _reach(values: FloatArray, level: float) -> float:
    """Half the width of the t interval of a mean."""
    return float(stdtrit(len(values) - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(len(values)))
