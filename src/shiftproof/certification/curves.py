"""Curves over radii: which radius every sample has earned, and the share of samples that reach each."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["NOTHING", "curve", "round_radii"]

NOTHING = -1.0
"""What a sample that is wrong or abstains has earned: it reaches no radius, not even 0."""
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
_COLUMNS = 5
_EDITS = (0, 1, 2, 4, 8)


def curve(earned: ArrayLike, radii: ArrayLike) -> FloatArray:
    """The part of samples whose credit reaches each radius."""
    ordered = np.sort(np.asarray(earned, np.float64))
    if not len(ordered):
        raise UsageError("certified accuracy needs at least one sample")
    asked = np.asarray(radii, np.float64)
    if asked.size and not bool(np.all(asked >= 0)):
        raise UsageError(f"radii are {asked.tolist()}; they should be at least 0")
    reached: FloatArray = 1 - np.searchsorted(ordered, asked, side="left") / len(ordered)
    return reached


def round_radii(farthest: float, *, edits: bool = False) -> tuple[float, ...]:
    """A handful of round radii from 0 to `farthest`, two at least; of edits, which are whole numbers, up to 8.

    >>> round_radii(0.9), round_radii(3, edits=True)
    ((0.0, 0.25, 0.5, 0.75), (0.0, 1.0, 2.0, 3.0))
    """
    if edits:
        return tuple(sorted({float(k) for k in (*_EDITS, farthest) if k <= min(farthest, _EDITS[-1])}))
    step = next((step for step in _STEPS if farthest / step < _COLUMNS), _STEPS[-1])
    return tuple(round(step * i, 4) for i in range(max(2, min(_COLUMNS, int(farthest / step) + 1))))
