"""Gaussian noise on the input."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from shiftproof.perturbations.noise.noise import NOISES
from shiftproof.perturbations.noise.normal import Normal

__all__ = ["Gaussian"]


@NOISES.register("gaussian", paper="Cohen et al. 2019", radius="l2", parameters="one per number of the input")
@dataclass(frozen=True)
class Gaussian(Normal):
    """Normal noise of standard deviation `sigma`, added to every number of the input; certifies an L2 radius."""

    units: ClassVar[str] = "pixel values in [0, 1]"
    additive: ClassVar[bool] = True

    @property
    def claim(self) -> str:
        """Against which changes the prediction holds."""
        return f"every change of the input whose l2 norm ({self.units}) is below the radius"

    def size(self, shape: tuple[int, ...]) -> int:
        """One number for each of the input's."""
        return math.prod(shape)

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """The inputs with the noise added; nothing is clipped."""
        return images + parameters.to(images).reshape(-1, *images.shape[1:])
