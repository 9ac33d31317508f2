"""What is sampled: under which noise, how often, at what error, until when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from shiftproof.certification.certifier import Alpha, Certifier
from shiftproof.certification.sampling.budget import Levels, bounds, budget
from shiftproof.certification.sampling.stopping import Full, StopOption
from shiftproof.perturbations.noise import NoiseOption, label
from shiftproof.types import Positive

__all__ = ["Setting"]


@dataclass(frozen=True)
class Setting(Certifier):
    """A certifier by a majority vote under noise: all that the engine has to know of who asks for the votes.

    `n0` votes choose the class, up to `n` more bound its probability, with an error of `alpha` in all; `stop` says when
    an image has been sampled enough.
    """

    noise: NoiseOption
    n: Positive = 100_000
    n0: Positive = 100
    alpha: Alpha = 0.001
    stop: StopOption = field(default_factory=Full)
    runner_up: bool = True
    skip_wrong: bool = False

    classifier: ClassVar[str] = "smoothed"

    @property
    def title(self) -> str:
        """What tells it from others in a table."""
        return label(self.noise)

    @property
    def votes(self) -> int:
        """As many as are drawn if nothing stops early."""
        return self.n

    @property
    def passes(self) -> int:
        """Votes of both kinds."""
        return self.n0 + self.n

    @property
    def asked_radii(self) -> tuple[float, ...] | None:
        """Those of the stopping rule."""
        return self.stop.asked_radii

    def levels(self, classes: int) -> Levels:
        """How alpha is shared out for a classifier of so many classes."""
        return budget(self.alpha, classes, runner_up=self.runner_up, stops_early=self.stop.early)

    def largest_radius(self, classes: int, levels: Levels | None = None) -> float:
        """What no radius can exceed: even unanimous votes bound a probability only so well; 0 if nothing is certified.

        >>> from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
        >>> round(RandomizedSmoothing("gaussian:1", n=100_000).largest_radius(2), 4)
        3.8115
        """
        unanimous = bounds(np.array([self.n]), np.array([0]), np.array([self.n]), self.n, self.levels(classes))
        return max(0.0, float(self.noise.radius(unanimous.miss, unanimous.rival)[0]))
