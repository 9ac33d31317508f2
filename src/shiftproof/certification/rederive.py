"""Radii from recorded votes, written a second time: bounds by statistics alone, nothing of what certified them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from shiftproof.perturbations.noise import Noise
from shiftproof.perturbations.noise.embedding_gaussian import EmbeddingGaussian
from shiftproof.perturbations.noise.gaussian import Gaussian
from shiftproof.perturbations.noise.normal import Normal
from shiftproof.perturbations.noise.uniform import Uniform
from shiftproof.statistics import sequence_upper, upper_bound
from shiftproof.types import FloatArray, IntArray

__all__ = ["Record", "radius_from_votes", "scores_from_votes"]

_EARLY = 0.1
"""Of alpha, for samples that stop early, where a rule may stop them."""


@dataclass(frozen=True, eq=False)
class Record:
    """Recorded votes, sample by sample: for the class, for the best other one, and in all; and how they were drawn."""

    count: IntArray
    runner_up_count: IntArray
    drawn: IntArray
    n: int
    alpha: float
    classes: int
    runner_up: bool
    stops_early: bool

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Bounds from above: of missing the class, and of the best other one; alpha is enough for both.

        Small probabilities, because floating point resolves them where it does not resolve those near 1.
        """
        apart = self.runner_up and self.classes > 2
        early = _EARLY * self.alpha if self.stops_early else 0.0
        final, early = (self.alpha - early) / (1 + apart), early / (1 + apart)
        full = self.drawn >= self.n
        some = ~full & (self.drawn > 0) if early > 0 else np.zeros(len(full), bool)
        miss, rival = np.ones(len(full)), np.ones(len(full))
        miss[full] = upper_bound(self.n - self.count[full], self.n, final)
        if apart:
            rival[full] = upper_bound(self.runner_up_count[full], self.n, final)
        if some.any():
            miss[some] = sequence_upper(self.drawn[some] - self.count[some], self.drawn[some], early)
            if apart:
                rival[some] = sequence_upper(self.runner_up_count[some], self.drawn[some], early)
        return miss, np.minimum(rival, miss)


def radius_from_votes(noise: Noise, record: Record, off_grid: FloatArray) -> FloatArray:
    """The radius that votes under a noise prove, less the distance to the grid; 0 where they prove none."""
    miss, rival = record.bounds
    if isinstance(noise, Gaussian | EmbeddingGaussian):
        # half the distance between the quantiles (Cohen et al. 2019, theorem 1)
        radius = noise.sigma * (norm.isf(miss) - norm.ppf(rival)) / 2
    elif isinstance(noise, Uniform):
        # width times the difference of the probabilities (Lee et al. 2019)
        radius = noise.width * (1 - miss - rival)
    else:
        radius = noise.radius(miss, rival)
    return np.maximum(np.nan_to_num(radius - off_grid, nan=0.0, neginf=0.0), 0.0)


def scores_from_votes(noise: Noise, record: Record) -> tuple[FloatArray, FloatArray]:
    """Scores of the class's probability from below and of the best other one's from above; half apart by the radius.

    sigma Phi^-1(p) under normal noise; 2 width p under uniform noise, of which total variation is the l1 norm over
    twice the width at most. Of other noises, twice the radius and 0.
    """
    miss, rival = record.bounds
    if isinstance(noise, Normal) and type(noise).radius is Normal.radius:
        return np.asarray(noise.sigma * norm.isf(miss)), np.asarray(noise.sigma * norm.ppf(rival))
    if isinstance(noise, Uniform):
        return 2 * noise.width - 2 * noise.width * miss, 2 * noise.width * rival
    return 2 * noise.radius(miss, rival), np.zeros(len(miss))
