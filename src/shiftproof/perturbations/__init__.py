"""What may happen to an input: an adversary, chance, or an accident changes it."""

from shiftproof.perturbations.corruptions import corrupt
from shiftproof.perturbations.deformation import Deformation
from shiftproof.perturbations.threat import Threat
from shiftproof.perturbations.warp import rotate

__all__ = ["Deformation", "Threat", "corrupt", "rotate"]
