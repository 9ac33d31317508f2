"""Radii from bounds on probabilities, and the checks that noises share."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["NOT_ADDED", "ONCE", "check_shape", "margin", "normal_radius"]

ONCE = "inside one interpolation of the clean image; an image that is handed in already deformed is not covered"
NOT_ADDED = "two such deformations in a row are not one with the sum of their parameters"


def normal_radius(sigma: float, miss: ArrayLike, rival: ArrayLike) -> FloatArray:
    """The L2 radius of a vote under normal noise of standard deviation `sigma`.

    >>> float(normal_radius(0.5, 0.01, 0.01).round(6))
    1.163174
    """
    miss, rival = _bounds(miss, rival)
    # where miss is 1, nothing is known of the class, even if rival is 0 and the difference undefined
    known = miss < 1
    radius = -sigma / 2 * (ndtri(np.where(known, miss, 0.5)) + ndtri(np.where(known, rival, 0.5)))
    return np.where(known, radius, -np.inf)


def margin(miss: ArrayLike, rival: ArrayLike) -> FloatArray:
    """By how much the class is likelier than any other, at least: the vote holds while total variation is below half.

    >>> float(margin(0.25, 0.125))
    0.625
    """
    miss, rival = _bounds(miss, rival)
    return (1 - miss) - rival


def check_shape(shape: tuple[int, ...]) -> None:
    """Refuse inputs that are no images."""
    if len(shape) != 3:
        raise UsageError(f"inputs of shape {shape} can't be deformed; images have channels, height and width")


def _bounds(miss: ArrayLike, rival: ArrayLike) -> tuple[FloatArray, FloatArray]:
    miss, rival = np.broadcast_arrays(np.asarray(miss, np.float64), np.asarray(rival, np.float64))
    if not np.all((miss >= 0) & (miss <= 1) & (rival >= 0) & (rival <= 1)):
        raise UsageError("miss and rival are bounds of probabilities; they should be from 0 to 1")
    return miss, np.minimum(rival, miss)
