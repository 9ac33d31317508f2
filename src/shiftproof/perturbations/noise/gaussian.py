"""Gaussian noise on the input."""

from dataclasses import dataclass
from typing import ClassVar

from shiftproof.perturbations.noise.noise import NOISES
from shiftproof.perturbations.noise.normal import Normal

__all__ = ["Gaussian"]


@NOISES.register("gaussian", paper="Cohen et al. 2019", radius="l2", parameters="one per number of the input")
@dataclass(frozen=True)
class Gaussian(Normal):
    """Normal noise of standard deviation `sigma`, added to every number of the input; certifies an L2 radius.

    Cohen et al., "Certified adversarial robustness via randomized smoothing" (2019, arXiv:1902.02918).
    """

    units: ClassVar[str] = "pixel values in [0, 1]"
