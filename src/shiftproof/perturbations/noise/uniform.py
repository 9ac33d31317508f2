"""Uniform noise on the input."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.perturbations.noise.noise import NOISES, Law, Noise, Scale
from shiftproof.perturbations.noise.radii import margin
from shiftproof.types import FloatArray

__all__ = ["Uniform"]


@NOISES.register("uniform", paper="Lee et al. 2019", radius="l1", parameters="one per number of the input")
@dataclass(frozen=True)
class Uniform(Noise):
    """Uniform noise between -`width` and `width`, added to every number of the input; certifies an L1 radius.

    Lee et al., "Tight certificates of adversarial robustness for randomly smoothed classifiers" (2019,
    arXiv:1906.04948).
    """

    width: Scale

    law: ClassVar[Law] = "uniform"
    norm: ClassVar[str] = "l1"
    units: ClassVar[str] = "pixel values in [0, 1]"

    @property
    def scale(self) -> float:
        """The width."""
        return self.width

    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        """Width times the margin: total variation is at most the L1 norm over twice the width."""
        return self.width * margin(miss, rival)

    def holds(self, delta: ArrayLike, miss: ArrayLike, rival: ArrayLike) -> NDArray[np.bool_]:
        """Whether the vote survives the change `delta` (... x d), by its exact total variation.

        >>> bool(Uniform(1.0).holds([0.3] * 6, miss=0.1, rival=0.1))  # its l2 norm is .73, the radius .8
        False
        """
        return self.variation(delta) < margin(miss, rival) / 2

    def variation(self, delta: ArrayLike) -> FloatArray:
        """The total variation between the noise and the noise moved by `delta` (... x d).

        >>> float(Uniform(1.0).variation([0.3] * 6).round(6))
        0.62285
        """
        apart = np.minimum(np.abs(np.asarray(delta, np.float64)) / (2 * self.width), 1)
        with np.errstate(divide="ignore"):
            return np.asarray(-np.expm1(np.log1p(-apart).sum(-1)))
