"""What may happen to an input: an adversary, chance, or nature changes it."""

from shiftproof.perturbations.threat import Threat
from shiftproof.perturbations.warp import rotate

__all__ = ["Threat", "rotate"]
