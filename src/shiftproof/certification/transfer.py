"""What a certificate at one input says of another: radii are 1-Lipschitz in the representation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["transferred_radius"]


def transferred_radius(radius: ArrayLike, distance: ArrayLike, constant: float = 1.0) -> FloatArray:
    """The radius that is guaranteed at x' by the one at x, if their representations are `distance` apart.

    `radius` is that at the input x, by a margin or by smoothing of the representation; `constant` is the encoder's. In
    the representation both kinds lose no more than the distance; 0 where nothing is left. It needs both inputs: of a
    domain that nobody has seen it says nothing.

    >>> transferred_radius([0.5, 0.1], 0.3)
    array([0.2, 0. ])
    """
    if not constant > 0:
        raise UsageError(f"constant is {constant}; it should be above 0")
    apart = np.asarray(distance, np.float64)
    if not (np.isfinite(apart).all() and (apart >= 0).all() and np.isfinite(radius).all()):
        raise UsageError("radii and distances should be finite numbers, distances of at least 0")
    left = np.asarray(radius, np.float64) - apart / constant
    return np.maximum(left, 0.0)
