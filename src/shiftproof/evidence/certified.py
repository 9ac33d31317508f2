"""Metrics of certificates, as pure functions: curves, averages, intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.certification import Certificates
from shiftproof.certification.curves import NOTHING, curve
from shiftproof.errors import UsageError
from shiftproof.perturbations.edits import readable_radii
from shiftproof.statistics import Sample, bootstrap_difference, bootstrap_mean, interval
from shiftproof.types import Estimate, FloatArray

__all__ = [
    "NOTHING",
    "abstention_rate",
    "average_certified_radius",
    "certified_accuracy",
    "certified_interval",
    "claimed_accuracy",
    "credit",
    "curve",
    "curve_band",
    "envelope",
    "mean_credit",
    "radius_difference",
    "radius_interval",
]


def certified_accuracy(certificates: Certificates, labels: ArrayLike, radii: ArrayLike) -> FloatArray:
    """The part of *all* samples that are certified, right, and have at least each of the radii; shaped like `radii`.

    At radius 0 that is the accuracy of the smoothed classifier, abstentions counted as wrong.
    """
    return curve(credit(certificates, labels), radii)


def average_certified_radius(
    certificates: Certificates, labels: ArrayLike, over: Literal["all", "correct"] = "all"
) -> float:
    """The mean radius, with 0 for samples that are wrong or abstain; over "correct" samples only if asked.

    The first is the area under the curve of certified accuracy. The second hides what accuracy loses under a shift.
    From samples that stopped early either is biased low: `certificates.stops_early` tells.
    """
    return mean_credit(credit(certificates, labels), over)


def abstention_rate(certificates: Certificates) -> float | None:
    """The part of samples on which no class is certified; None if wrong ones were skipped: nobody knows of those."""
    return None if certificates.skipped.any() else float(certificates.abstained.mean())


def certified_interval(
    certificates: Certificates,
    labels: ArrayLike,
    radius: float = 0.0,
    level: float = 0.95,
    groups: ArrayLike | None = None,
) -> Estimate:
    """Certified accuracy at one radius with its Clopper-Pearson interval over images, for this noise bank.

    Where images come in groups (patients), give them: the interval is then a bootstrap over whole groups.
    Of the true certified accuracy only the lower limit holds: more votes would certify more.
    """
    reached = credit(certificates, labels) >= radius
    if groups is not None:
        sample = Sample(reached.astype(np.float64), np.asarray(groups, object))
        return bootstrap_mean(sample, limits=(0, 1), level=level)
    return interval(int(reached.sum()), len(reached), level)


def radius_interval(
    certificates: Certificates,
    labels: ArrayLike,
    seed: int = 0,
    level: float = 0.95,
    groups: ArrayLike | None = None,
) -> Estimate:
    """The average certified radius over all samples with a bootstrap interval over images, for this noise bank.

    With `groups` (patients), whole groups are resampled.
    """
    return bootstrap_mean(_sample(certificates, labels, groups), seed, level=level)


def radius_difference(
    one: Certificates,
    other: Certificates,
    labels: ArrayLike,
    seed: int = 0,
    level: float = 0.95,
    groups: ArrayLike | None = None,
) -> Estimate:
    """By how much one model's average certified radius exceeds another's on the same samples; paired.

    With `groups` (patients), whole groups are resampled.
    """
    return bootstrap_difference([_sample(one, labels, groups)], [_sample(other, labels, groups)], seed, level=level)


def credit(certificates: Certificates, labels: ArrayLike) -> FloatArray:
    """The radius of every sample that is certified and right, `NOTHING` for the others; of edits their number."""
    if certificates.unsound:
        raise UsageError(
            f"{certificates.title}: these are no certificates but what a published rule claims; "
            "for the claim itself use claimed_accuracy"
        )
    return _credit(certificates, labels)


def claimed_accuracy(certificates: Certificates, labels: ArrayLike, radii: ArrayLike) -> FloatArray:
    """What an unsound rule claims as certified accuracy at each of the radii, to be put beside what is proven."""
    return curve(_credit(certificates, labels), radii)


def _credit(certificates: Certificates, labels: ArrayLike) -> FloatArray:
    wanted = np.asarray(labels)
    if wanted.shape != certificates.prediction.shape:
        raise UsageError(f"there are {len(certificates)} certificates but labels of shape {wanted.shape}")
    if not np.isfinite(certificates.radius).all():
        raise UsageError("a radius is not a finite number; these certificates were changed, or come from elsewhere")
    right = (certificates.prediction == wanted) & ~certificates.skipped
    return np.where(right, readable_radii(certificates.radius, certificates.norm), NOTHING)


def mean_credit(earned: FloatArray, over: str = "all") -> float:
    """The mean radius over all samples, or over those that are certified and right."""
    if over not in ("all", "correct"):
        raise UsageError(f"over is {over!r}; it should be 'all' or 'correct'")
    counted = earned if over == "all" else earned[earned > NOTHING]
    return float(np.maximum(counted, 0.0).mean()) if len(counted) else 0.0


def curve_band(n: int, level: float = 0.95) -> float:
    """Half the width of the Dvoretzky-Kiefer-Wolfowitz band around a whole curve of `n` images."""
    return math.sqrt(math.log(2 / (1 - level)) / (2 * n))


def envelope(curves: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """The best of several curves at each radius. A picture: it is no classifier's curve, and has no average radius."""
    if not curves:
        raise UsageError("an envelope needs at least one curve")
    best: FloatArray = np.max([np.asarray(values, np.float64) for values in curves], axis=0)
    return best


def _sample(certificates: Certificates, labels: ArrayLike, groups: ArrayLike | None = None) -> Sample:
    units = certificates.ids if groups is None else np.asarray(groups, object)
    return Sample(np.maximum(credit(certificates, labels), 0.0), units)
