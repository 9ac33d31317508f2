"""Intervals for the mean over several trainings of a model: they count what samples and what seeds add to its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import t

from shiftproof.errors import UsageError
from shiftproof.types import Estimate

__all__ = ["over_seeds"]


def over_seeds(estimate: Estimate, per_seed: Sequence[float], limits: tuple[float, float] | None = None) -> Estimate:
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

    >>> estimate = Estimate(0.9, 0.88, 0.92, 1000)
    >>> over_seeds(estimate, [0.9, 0.9, 0.9]) == replace(estimate, method="; 3 seeds")
    True
    >>> wider = over_seeds(estimate, [0.88, 0.9, 0.92], limits=(0, 1))
    >>> round(wider.low, 3), round(wider.high, 3)
    (0.846, 0.954)
    """
    values = np.asarray(per_seed, np.float64)
    if not len(values):
        raise UsageError("an interval over seeds needs the figure of at least one")
    if len(values) == 1:
        return estimate
    reach = t.ppf((1 + estimate.level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    low = estimate.value - float(np.hypot(estimate.value - estimate.low, reach))
    high = estimate.value + float(np.hypot(estimate.high - estimate.value, reach))
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    method = f"{estimate.method}; {len(values)} seeds"
    return replace(estimate, low=low, high=high, method=method)
