"""Why a mean radius is smaller elsewhere: fewer samples are right, or those that are right are less sure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["RadiusGap", "radius_gap"]


@dataclass(frozen=True)
class RadiusGap:
    """The average certified radius that is lost on the way to a target, in two parts that add up to it."""

    lost: float
    by_accuracy: float
    by_radius: float


def radius_gap(source: ArrayLike, target: ArrayLike) -> RadiusGap:
    """Split the gap between mean radii; each array has a radius a sample, 0 where it is wrong.

    A mean radius is (share that is right) x (mean radius of those): the change of each factor counts at the mean of the
    other's two values, so that the order of the two does not matter. Where one side has nothing right, its radius among
    the right ones is taken to be the other's, and all is lost by accuracy.

    >>> radius_gap([1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.0, 0.0])
    RadiusGap(lost=0.75, by_accuracy=0.375, by_radius=0.375)
    """
    (right, mean), (other_right, other_mean) = _factors(source), _factors(target)
    mean, other_mean = mean if right else other_mean, other_mean if other_right else mean
    by_accuracy = (right - other_right) * (mean + other_mean) / 2
    by_radius = (mean - other_mean) * (right + other_right) / 2
    return RadiusGap(right * mean - other_right * other_mean, by_accuracy, by_radius)


def _factors(values: ArrayLike) -> tuple[float, float]:
    radii: FloatArray = np.asarray(values, np.float64)
    if radii.ndim != 1 or not len(radii) or not bool(np.all(radii >= 0)):
        raise UsageError("radii should be one number of at least 0 for each sample, at least one")
    right = radii[radii > 0]
    return len(right) / len(radii), float(right.mean()) if len(right) else 0.0
