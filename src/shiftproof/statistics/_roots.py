"""Solving for a bound in log-odds, without ever standing on the wrong side of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shiftproof.types import FloatArray

__all__ = ["last_rejected"]

_TOLERANCE = 1e-11
_ROUNDS = 200


def last_rejected(evidence: Callable[[FloatArray], tuple[FloatArray, FloatArray]], rejected: FloatArray) -> FloatArray:
    """The largest log-odds, up from `rejected`, that the evidence still rejects: to 1e-11, and never beyond.

    `evidence(x)` returns the excess of the evidence over its threshold (rejected while >= 0) and its slope. The
    excess falls and is convex, so Newton steps from a rejected point end short of the root. No proof of that is
    needed for the result to be valid: a point is kept only if it is itself rejected.
    """
    excess, slope = evidence(rejected)
    step = _newton(excess, slope)
    for _ in range(_ROUNDS):
        if not np.any(step > _TOLERANCE):
            break
        ahead = rejected + step
        excess, slope = evidence(ahead)
        # evidence that is infinite or not a number comes from an underflow, not from the data
        keep = np.isfinite(excess) & (excess >= 0)
        rejected = np.where(keep, ahead, rejected)
        step = np.where(keep, _newton(excess, slope), step / 2)
    return rejected


def _newton(excess: FloatArray, slope: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        # a hair short, or rounding puts every other landing beyond the root
        step = -0.9999 * excess / slope
    return np.where(np.isfinite(step), np.maximum(step, 0.0), 0.0)
