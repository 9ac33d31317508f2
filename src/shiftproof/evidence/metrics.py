"""Metrics with intervals, as pure functions. `sp.metrics`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.evidence.certified import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy,
    certified_interval,
    claimed_accuracy,
    curve_band,
    envelope,
    radius_difference,
    radius_interval,
)
from shiftproof.statistics import Sample, bootstrap_difference, bootstrap_mean, interval, pearson, spearman
from shiftproof.types import Estimate

__all__ = [
    "abstention_rate",
    "accuracy",
    "average_certified_radius",
    "certified_accuracy",
    "certified_interval",
    "claimed_accuracy",
    "curve_band",
    "envelope",
    "gap",
    "interval",
    "pearson",
    "radius_difference",
    "radius_interval",
    "spearman",
]


def accuracy(correct: ArrayLike, groups: ArrayLike | None = None, level: float = 0.95) -> Estimate:
    """The part of samples that are right, with its Clopper-Pearson interval.

    That takes samples as independent. Where they come in groups (patients), give them: the interval is then a bootstrap
    over whole groups.

    >>> accuracy([True] * 16 + [False] * 84).format()
    '16.0% (9.4% to 24.7%)'
    """
    right = np.asarray(correct, bool)
    if not right.size:
        raise UsageError("accuracy needs at least one sample")
    if groups is not None:
        sample = Sample(right.astype(np.float64), np.asarray(groups, object))
        return bootstrap_mean(sample, limits=(0, 1), level=level)
    return interval(int(right.sum()), right.size, level)


def gap(sources: Sequence[Sample], target: Sample, seed: int = 0, level: float = 0.95) -> Estimate:
    """How much accuracy is lost on the way: mean over sources less target, above 0 if the target is worse.

    Values are between 0 and 1. The interval is a seeded bootstrap, by group where there are groups; paired where
    samples pair (equal ids in a source and the target), two-sample otherwise.
    """
    return bootstrap_difference(sources, [target], seed, limits=(0, 1), level=level)
