"""A seeded bootstrap for differences of means, over samples or over groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import norm, t

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.statistics.units import Units, join_units
from shiftproof.types import Estimate, FloatArray

__all__ = [
    "Resampled",
    "Sample",
    "bootstrap_difference",
    "bootstrap_mean",
    "bootstrap_ratios",
    "outer_percentiles",
    "resample_difference",
    "resample_mean",
    "resample_weighted",
]

_CHUNK_CELLS = 4_000_000
_FEWEST = 10
"""Draws beyond a percentile, on either side, that it can be read from; farther out it is continued as a normal one."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Values measured on one domain, each belonging to a unit: what is drawn anew in a bootstrap.

    A unit is a group (patient, slide) where there are groups, else a sample id. Equal units in two samples are the
    same thing measured twice, and are resampled together: that is what makes a comparison paired.
    """

    values: FloatArray
    units: NDArray[Any] | Units


@dataclass(frozen=True, eq=False)
class _Stratum:
    """Units that occur in the same samples: of each unit and sample, the sum and number of its values."""

    name: str
    sums: FloatArray
    counts: FloatArray


@dataclass(frozen=True, eq=False)
class Resampled:
    """A figure, and what it is when units are drawn anew (ascending): an interval of every level, for one bootstrap.

    `units` are those of each sample.
    """

    value: float
    draws: FloatArray
    units: tuple[NDArray[Any] | Units, ...]
    n: int
    method: str

    @cached_property
    def fewest_groups(self) -> int | None:
        """Groups of the sample with the fewest; None where samples stand alone."""
        return _fewest_groups(self.units)

    def less(self, number: float) -> Resampled:
        """The same of the figure less a number that is known."""
        return replace(self, value=self.value - number, draws=self.draws - number)

    def at(self, level: float) -> Estimate:
        """The figure with its percentile interval; of levels that so few draws can't tell, a normal continuation."""
        drawn = min(level, 1 - 2 * _FEWEST / len(self.draws))
        tail = _outside(drawn, self.fewest_groups)
        low, high = np.quantile(self.draws, [tail, 1 - tail])
        below, above = max(self.value - float(low), 0.0), max(float(high) - self.value, 0.0)
        if level > drawn and tail > 0:
            farther = float(ndtri(_outside(level, self.fewest_groups)) / ndtri(tail))
            below, above = farther * below, farther * above
        return Estimate(self.value, self.value - below, self.value + above, self.n, level, self.method)


def resample_difference(
    plus: Sequence[Sample],
    minus: Sequence[Sample],
    seed: int = 0,
    *,
    limits: tuple[float, float] | None = None,
    resamples: int = 2_000,
) -> Resampled:
    """What `bootstrap_difference` draws, for intervals of several levels."""
    if not plus or not minus:
        raise UsageError("a difference needs at least one value on each side")
    weights = np.array([1 / len(plus)] * len(plus) + [-1 / len(minus)] * len(minus))
    return resample_weighted([*plus, *minus], weights, seed, limits, resamples)


def resample_mean(
    *samples: Sample, seed: int = 0, limits: tuple[float, float] | None = None, resamples: int = 2_000
) -> Resampled:
    """What `bootstrap_mean` draws, for intervals of several levels; of several samples, the mean of their means."""
    return resample_weighted(samples, np.full(len(samples), 1 / len(samples)), seed, limits, resamples)


def bootstrap_difference(
    plus: Sequence[Sample],
    minus: Sequence[Sample],
    seed: int = 0,
    *,
    limits: tuple[float, float] | None = None,
    resamples: int = 2_000,
    level: float = 0.95,
) -> Estimate:
    """Mean over `plus` samples of their means, less the same over `minus`, with a percentile interval.

    Units are resampled among those that occur in the same samples: where none is shared, each sample on its own
    (two-sample); where all are, jointly (paired).

    A plain bootstrap of few or nearly equal values is too sure of itself: of 100 values that are all 1 it draws
    nothing else. With `limits`, the least and greatest possible value, every sample gets two more units to draw from,
    one at each limit, opposed in paired samples. That is the remedy of Agresti and Caffo, and of Agresti and Min.
    Of few groups the percentiles are moved outwards as the t distribution of so many groups asks (Hesterberg, What
    Teachers Should Know About the Bootstrap, 2015).

    >>> right = Sample(np.ones(4), np.array(list("abcd"), object))
    >>> wrong = Sample(np.zeros(4), np.array(list("efgh"), object))
    >>> bootstrap_difference([right], [wrong], limits=(0, 1)).value
    1.0
    """
    return resample_difference(plus, minus, seed, limits=limits, resamples=resamples).at(level)


def bootstrap_mean(
    sample: Sample,
    seed: int = 0,
    *,
    limits: tuple[float, float] | None = None,
    resamples: int = 2_000,
    level: float = 0.95,
) -> Estimate:
    """The mean of one sample with a percentile interval over its units; `limits` as in `bootstrap_difference`."""
    return resample_mean(sample, seed=seed, limits=limits, resamples=resamples).at(level)


def bootstrap_ratios(
    one: tuple[Sequence[Sample], Sample], other: tuple[Sequence[Sample], Sample], seed: int = 0, *, level: float = 0.95
) -> Estimate:
    """What is left of one measure, less what is left of another: target over the mean of sources, of each.

    Units that occur in several samples are drawn together. Every sample gets a unit at either limit (0 and 1), so that
    few successes do not look certain.
    """
    samples = _coded([*one[0], one[1], *other[0], other[1]])
    signs = np.array([-1.0] * len(one[0]) + [1.0] + [1.0] * len(other[0]) + [-1.0])
    strata = [_with_limits(stratum, signs, (0, 1)) for stratum in _strata(samples)]
    means = np.vstack([_resampled_means(strata, len(samples), seed, 2_000), [s.values.mean() for s in samples]])
    first, second = np.split(means, [len(one[0]) + 1], axis=1)
    left = [part[:, -1] / np.maximum(part[:, :-1].mean(1), 1e-9) for part in (first, second)]
    difference = left[0] - left[1]
    low, high = np.quantile(difference[:-1], outer_percentiles([one.units for one in samples], level))
    value = float(difference[-1])
    n = sum(len(sample.values) for sample in samples)
    return Estimate(value, min(float(low), value), max(float(high), value), n, level, "bootstrap of ratios")


def resample_weighted(
    samples: Sequence[Sample],
    weights: FloatArray,
    seed: int = 0,
    limits: tuple[float, float] | None = None,
    resamples: int = 2_000,
) -> Resampled:
    """A weighted sum of the samples' means, for intervals of several levels; drawn as `bootstrap_difference` says."""
    if any(len(sample.values) == 0 for sample in samples):
        raise UsageError("a bootstrap needs at least one value in every sample")
    samples = _coded(samples)
    strata = _strata(samples)
    paired = any(np.count_nonzero(stratum.counts.sum(0)) > 1 for stratum in strata)
    if limits is not None:
        strata = [_with_limits(stratum, weights, limits) for stratum in strata]
    means = _resampled_means(strata, len(samples), seed, resamples)
    value = float(np.array([sample.values.mean() for sample in samples]) @ weights)
    n = sum(len(sample.values) for sample in samples)
    kind = "one-sample" if len(samples) == 1 else "paired" if paired else "two-sample"
    return Resampled(value, np.sort(means @ weights), tuple(one.units for one in samples), n, f"{kind} bootstrap")


def outer_percentiles(
    units: Sequence[NDArray[Any] | Units], level: float, *, few_samples: bool = False
) -> tuple[float, float]:
    """Where an interval of resampled figures ends: farther out than its level says if a sample has few groups.

    Whole groups are right or wrong together, and few of them know little of how much groups differ. `units` are those
    of each sample. With `few_samples`, samples without groups count as groups do: for figures that are no means.
    """
    tail = _outside(level, _fewest_groups(units, few_samples))
    return tail, 1 - tail


def _fewest_groups(units: Sequence[NDArray[Any] | Units], few_samples: bool = False) -> int | None:
    coded = [Units.of(one) for one in units]
    grouped = [len(one.names) for one in coded if few_samples or not one.separate]
    return min(grouped) if grouped else None


def _outside(level: float, groups: int | None) -> float:
    """The part of resampled figures beyond either end of an interval; smaller than its level says for few groups."""
    if groups is None:
        return (1 - level) / 2
    if groups < 2:
        return 0.0
    return float(norm.sf(np.sqrt(groups / (groups - 1)) * t.ppf((1 + level) / 2, groups - 1)))


def _coded(samples: Sequence[Sample]) -> list[Sample]:
    return [Sample(one.values, Units.of(one.units)) for one in samples]


def _strata(samples: Sequence[Sample]) -> list[_Stratum]:
    units, places = join_units([Units.of(sample.units) for sample in samples])
    sums, counts = np.zeros((len(units), len(samples))), np.zeros((len(units), len(samples)))
    for column, (sample, index) in enumerate(zip(samples, places, strict=True)):
        sums[:, column] = np.bincount(index, sample.values, len(units))
        counts[:, column] = np.bincount(index, minlength=len(units))
    _, membership = np.unique(counts > 0, axis=0, return_inverse=True)
    chosen = [membership.ravel() == number for number in range(membership.max() + 1)]
    # the name seeds the stratum's draws: a unit's own, so that the order of samples does not matter
    return [_Stratum(units[int(rows.argmax())].as_py(), sums[rows], counts[rows]) for rows in chosen]


def _with_limits(stratum: _Stratum, weights: FloatArray, limits: tuple[float, float]) -> _Stratum:
    """Two more units of average size: one that makes the difference as large as possible, one as small."""
    sizes = stratum.counts.mean(0)
    values = np.array([np.where(weights > 0, limits[1], limits[0]), np.where(weights > 0, limits[0], limits[1])])
    return _Stratum(
        stratum.name, np.vstack([stratum.sums, values * sizes]), np.vstack([stratum.counts, [sizes, sizes]])
    )


def _resampled_means(strata: list[_Stratum], samples: int, seed: int, resamples: int) -> FloatArray:
    """The mean of every sample (columns) in every resample (rows)."""
    sums, counts = np.zeros((resamples, samples)), np.zeros((resamples, samples))
    for stratum in strata:
        generator = numpy_generator(seed, "bootstrap", stratum.name)
        # units that are alike are drawn together: thousands of samples that are right or wrong make two kinds
        kinds, alike = np.unique(np.hstack([stratum.sums, stratum.counts]), axis=0, return_counts=True)
        step = max(1, _CHUNK_CELLS // len(kinds))
        for start in range(0, resamples, step):
            rows = slice(start, min(start + step, resamples))
            times = generator.multinomial(alike.sum(), alike / alike.sum(), size=rows.stop - start).astype(np.float64)
            sums[rows] += times @ kinds[:, :samples]
            counts[rows] += times @ kinds[:, samples:]
    means: FloatArray = sums / counts
    return means
