"""Rotation by a uniform angle."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from shiftproof.perturbations.noise.noise import NOISES, Law, Noise
from shiftproof.perturbations.noise.radii import ONCE, check_shape, margin
from shiftproof.perturbations.warp import turned
from shiftproof.types import FloatArray

__all__ = ["Rotation"]


@NOISES.register("rotation", paper="Alfarra et al. 2022", radius="angle", parameters="1")
@dataclass(frozen=True)
class Rotation(Noise):
    """Rotation about the centre by an angle that is uniform within `sigma` half turns to either side.

    The parameter is the angle in radians, counter-clockwise. Angles live on a circle: a wide noise overlaps itself from
    behind, so that a modest majority certifies every angle (for sigma .9, above .611).

    Alfarra et al., "DeformRS: certifying input deformations with randomized smoothing" (2022, arXiv:2107.00996).
    """

    sigma: Annotated[float, Interval(gt=0, le=1)]

    law: ClassVar[Law] = "uniform"
    norm: ClassVar[str] = "angle"
    units: ClassVar[str] = "radians"
    additive: ClassVar[bool] = False

    @property
    def scale(self) -> float:
        """The largest angle."""
        return self.sigma * math.pi

    @property
    def claim(self) -> str:
        """Against which rotations the prediction holds."""
        return f"every rotation by an angle (radians) below the radius, by any angle if the radius is pi, {ONCE}"

    def size(self, shape: tuple[int, ...]) -> int:
        """One angle."""
        check_shape(shape)
        return 1

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """The images turned counter-clockwise."""
        return turned(images, parameters[:, 0])

    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        """The margin times the largest angle; pi where every angle holds."""
        reach = self.scale * margin(miss, rival)
        return np.where(self._farthest < reach, math.pi, np.minimum(reach, math.pi))

    def holds(self, angle: ArrayLike, miss: ArrayLike, rival: ArrayLike) -> NDArray[np.bool_]:
        """Whether the vote survives a rotation by `angle` (radians), by its exact total variation on the circle.

        >>> bool(Rotation(0.9).holds(3.14, miss=0.38, rival=0.38)), bool(Rotation(0.9).holds(3.14, 0.39, 0.39))
        (True, False)
        """
        angle = np.asarray(angle, np.float64)
        shortest = np.abs(angle - 2 * math.pi * np.round(angle / (2 * math.pi)))
        return np.minimum(shortest, self._farthest) < self.scale * margin(miss, rival)

    @property
    def _farthest(self) -> float:
        """The angle beyond which the turned noise overlaps from behind what it loses in front."""
        return 2 * math.pi * (1 - self.sigma)
