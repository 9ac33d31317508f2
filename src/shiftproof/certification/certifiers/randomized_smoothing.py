"""Randomized smoothing: the majority vote under noise, certified by counting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Interval

from shiftproof.certification.certificates import Certificates
from shiftproof.certification.certified_classifier import Promise, SmoothedPromise
from shiftproof.certification.certifier import CERTIFIERS, Job
from shiftproof.certification.guarantees import described_classifier, smoothing_guarantee
from shiftproof.certification.rederive import Record, radius_from_votes
from shiftproof.certification.sampling.bank import grid_of
from shiftproof.certification.sampling.budget import Levels, bounds, budget
from shiftproof.certification.sampling.stopping import Full, Stop, StopOption, as_stop
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import NoiseOption, as_noise, label
from shiftproof.types import MOST, Cost, FloatArray, Positive

__all__ = ["RandomizedSmoothing"]


@CERTIFIERS.register(
    "randomized-smoothing",
    paper="Cohen et al. 2019",
    needs="any frozen classifier",
    norm="that of the noise",
    cost="n0 + n forward passes a sample, fewer with a stopping rule",
)
@dataclass(frozen=True)
class RandomizedSmoothing:
    """The majority vote of a classifier under noise, certified by counting votes.

    `n0` votes choose the class and never count again; up to `n` more bound its probability, and with `runner_up` that
    of the best other class. A certificate is wrong with probability `alpha` at most. `stop` says when an image has been
    sampled enough: "full", `Radii([...])` or `Within(fraction)`. `skip_wrong` does not certify wrong predictions, which
    leaves certified accuracy as it is.

    >>> from shiftproof.perturbations import noise
    >>> RandomizedSmoothing(noise.Gaussian(0.25), n=1_000).stop
    Full()
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

        >>> round(RandomizedSmoothing("gaussian:1", n=100_000).largest_radius(2), 4)
        3.8115
        """
        unanimous = bounds(np.array([self.n]), np.array([0]), np.array([self.n]), self.n, self.levels(classes))
        return max(0.0, float(self.noise.radius(unanimous.miss, unanimous.rival)[0]))

    def applies(self, job: Job) -> str:
        """To any frozen classifier."""
        most = self.largest_radius(job.classes)
        if most <= 0:
            raise UsageError(f"{self.n} votes can't certify anything at alpha {self.alpha:g}; give a larger n")
        self.noise.size(job.domain.shape)
        grid_of(self.noise)
        return f"any frozen classifier can be smoothed; with n = {self.n:,} no radius can exceed {most:.4g}"

    def certify(self, job: Job) -> Certificates:
        """Certificates for every sample of the job's domain."""
        return self.together(job, [self])[0]

    def estimate(self, job: Job) -> Cost:
        """Passes and time, expected and at most."""
        from shiftproof.certification.sampling.estimate import estimate_sampling

        return estimate_sampling(job, self)

    def rederive(self, certificates: Certificates) -> FloatArray:
        """The radii that follow from the votes."""
        record = Record(
            certificates.count,
            certificates.runner_up_count,
            certificates.n,
            self.n,
            self.alpha,
            certificates.classes,
            self.runner_up,
            self.stop.early,
        )
        radius = radius_from_votes(self.noise, record, certificates.off_grid)
        return np.where(certificates.skipped | (certificates.n == 0), 0.0, radius)

    def promise(self, job: Job) -> Promise:
        """The majority vote under the noise."""
        votes = max(1_000, min(self.n, 4_000))
        return SmoothedPromise(job.model, self.noise, 16, votes, job.seed)

    def guarantee_of(self, job: Job, certificates: Certificates) -> str:
        """The sentence that certificates of the job should carry."""
        return smoothing_guarantee(self.noise, self.alpha, described_classifier(certificates.guarantee))

    @staticmethod
    def together(job: Job, settings: Sequence[RandomizedSmoothing]) -> list[Certificates]:
        """Several settings in one job: they share the noise, not the forward passes."""
        from shiftproof.certification.sampling.engine import sample

        return sample(job, settings)
