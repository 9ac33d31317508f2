"""What all objectives have that train a network to be smoothed with normal noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from shiftproof.objectives.measures import noise_of
from shiftproof.objectives.objective import Objective
from shiftproof.perturbations.noise import Noise
from shiftproof.types import NonNegative, Range

__all__ = ["ForSmoothing"]


@dataclass(frozen=True)
class ForSmoothing(Objective):
    """`sigma` is the standard deviation of the noise, that of the smoothing to come; the model is selected under it."""

    sigma: Annotated[NonNegative, Range(0.12, 1.0, log=True)] = 0.25

    kind: ClassVar[str] = "image"

    @property
    def noise(self) -> Noise | None:
        """Under which it is measured; none if sigma is 0."""
        return noise_of(self.sigma)
