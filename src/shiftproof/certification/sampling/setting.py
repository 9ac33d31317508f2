"""What is sampled: under which noise, how often, at what error, until when."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from shiftproof.certification.sampling.budget import Levels, bounds, budget
from shiftproof.certification.sampling.stopping import Full, Stop, StopOption, as_stop
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import NoiseOption, as_noise, label
from shiftproof.types import MOST, Positive

__all__ = ["Setting"]


@dataclass(frozen=True)
class Setting:
    """Options of a majority vote under noise: all that the engine has to know of who asks for the votes.

    `n0` votes choose the class, up to `n` more bound its probability, with an error of `alpha` in all; `stop` says when
    an image has been sampled enough.
    """

    noise: NoiseOption
    n: Positive = 100_000
    n0: Positive = 100
    alpha: Annotated[float, Interval(gt=0, lt=1)] = 0.001
    stop: StopOption = field(default_factory=Full)
    runner_up: bool = True
    skip_wrong: bool = False

    classifier: ClassVar[str] = "smoothed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", as_noise(self.noise))
        object.__setattr__(self, "stop", as_stop(self.stop))
        for name in ("n", "n0"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= MOST:
                raise UsageError(f"{name} is {value!r}; it should be a whole number from 1 to {MOST:,}")
            object.__setattr__(self, name, int(value))
        if not isinstance(self.alpha, int | float) or not 0 < self.alpha < 1:
            raise UsageError(
                f"alpha is {self.alpha!r}; it is a probability of error strictly between 0 and 1, such as 0.001"
            )

    @property
    def title(self) -> str:
        """What tells it from others in a table."""
        return label(self.noise)

    @property
    def scale(self) -> float:
        """A radius of interest, fixed before anything is measured: the scale of the noise."""
        return self.noise.scale

    def levels(self, classes: int) -> Levels:
        """How alpha is shared out for a classifier of so many classes."""
        stop: Stop = self.stop
        return budget(self.alpha, classes, runner_up=self.runner_up, stops_early=stop.early)

    def largest_radius(self, classes: int) -> float:
        """What no radius can exceed: even unanimous votes bound a probability only so well; 0 if nothing is certified.

        >>> round(Setting("gaussian:1", n=100_000).largest_radius(2), 4)
        3.8115
        """
        unanimous = bounds(np.array([self.n]), np.array([0]), np.array([self.n]), self.n, self.levels(classes))
        return max(0.0, float(self.noise.radius(unanimous.miss, unanimous.rival)[0]))
