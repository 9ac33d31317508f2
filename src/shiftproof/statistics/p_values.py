"""Tests by intervals: p-values that agree with an interval, and Holm's correction where several are judged together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.types import Estimate, FloatArray

__all__ = ["holm", "p_value"]

_LEAST = 1e-6
"""No p-value is below this one: so far out nothing is known of a bootstrap's tail."""
_HALVINGS = 16


def p_value(interval: Callable[[float], Estimate], holds: Callable[[Estimate], bool]) -> float:
    """The smallest 1 - level at which something still holds of the whole two-sided interval; 1 if it never does.

    So it is at most 0.05 where the 95 % interval says so: twice the p-value of the one-sided test. `interval` gives
    wider ones for higher levels.

    >>> from scipy.stats import norm
    >>> def mean(level):
    ...     reach = norm.ppf((1 + level) / 2)
    ...     return Estimate(2.0, 2 - reach, 2 + reach, 100, level)
    >>> round(p_value(mean, lambda one: one.low > 0), 4), round(float(2 * norm.sf(2)), 4)
    (0.0455, 0.0455)
    """
    if not holds(interval(0.0)):
        return 1.0
    if holds(interval(1 - _LEAST)):
        return _LEAST
    fails, good = np.log(_LEAST), 0.0
    for _ in range(_HALVINGS):
        middle = (fails + good) / 2
        if holds(interval(1 - float(np.exp(middle)))):
            good = middle
        else:
            fails = middle
    return float(np.exp(good))


def holm(p: ArrayLike) -> FloatArray:
    """Holm's step-down correction: p-values that count how many are judged, in the order in which they came.

    Whatever their dependence, the chance that any true null hypothesis has one of at most alpha is at most alpha (Holm,
    A simple sequentially rejective multiple test procedure, 1979, jstor 4615733).

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, np.float64)
    if values.ndim != 1 or not bool(((values >= 0) & (values <= 1)).all()):
        raise UsageError(f"p-values are {values.tolist()}; they should be a list of numbers from 0 to 1")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return adjusted
