"""What noises with normal parameters have in common."""

from dataclasses import dataclass
from typing import ClassVar

from shiftproof.perturbations.noise.noise import Law, Noise, Scale
from shiftproof.perturbations.noise.radii import normal_radius
from shiftproof.types import FloatArray

__all__ = ["Normal"]


@dataclass(frozen=True)
class Normal(Noise):
    """Independent normal parameters of standard deviation `sigma`; they certify an L2 radius."""

    sigma: Scale

    law: ClassVar[Law] = "normal"
    norm: ClassVar[str] = "l2"

    @property
    def scale(self) -> float:
        """Sigma."""
        return self.sigma

    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        """Half of sigma times the distance of the two normal quantiles."""
        return normal_radius(self.sigma, miss, rival)
