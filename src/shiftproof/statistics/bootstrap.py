"""A seeded bootstrap for differences of means, over samples or over groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.types import Estimate, FloatArray

__all__ = ["Sample", "bootstrap_difference"]

_CHUNK_CELLS = 4_000_000


@dataclass(frozen=True, eq=False)
class Sample:
    """Values measured on one domain, each belonging to a unit: what is drawn anew in a bootstrap.

    A unit is a group (patient, slide) where there are groups, else a sample id. Equal units in two samples are the
    same thing measured twice, and are resampled together: that is what makes a comparison paired.
    """

    values: FloatArray
    units: NDArray[np.object_]


def bootstrap_difference(
    plus: Sequence[Sample], minus: Sequence[Sample], seed: int = 0, resamples: int = 2_000, level: float = 0.95
) -> Estimate:
    """Mean over `plus` samples of their means, less the same over `minus`, with a percentile interval.

    Samples that share no unit are resampled each on its own (two-sample); if any unit is shared, all units are
    resampled jointly (paired). Percentile intervals are approximate, and degenerate when all values are equal.

    >>> right = Sample(np.ones(4), np.array(list("abcd"), object))
    >>> wrong = Sample(np.zeros(4), np.array(list("efgh"), object))
    >>> bootstrap_difference([right], [wrong]).value
    1.0
    """
    samples = [*plus, *minus]
    if not plus or not minus or any(len(sample.values) == 0 for sample in samples):
        raise UsageError("a difference needs at least one value on each side")
    weights = [1 / len(plus)] * len(plus) + [-1 / len(minus)] * len(minus)
    value = sum(weight * sample.values.mean() for weight, sample in zip(weights, samples, strict=True))
    paired = _any_shared_unit(samples)
    draws = np.zeros(resamples)
    if paired:
        units = np.unique(np.concatenate([sample.units for sample in samples]))
        tables = [_sums_and_counts(sample, units) for sample in samples]
        draws = _resampled(tables, weights, len(units), seed, "joint", resamples)
    else:
        for index, (weight, sample) in enumerate(zip(weights, samples, strict=True)):
            units = np.unique(sample.units)
            draws += _resampled([_sums_and_counts(sample, units)], [weight], len(units), seed, index, resamples)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    n = sum(len(sample.values) for sample in samples)
    return Estimate(
        float(value), float(low), float(high), n, level, f"{'paired' if paired else 'two-sample'} bootstrap"
    )


def _any_shared_unit(samples: list[Sample]) -> bool:
    seen: set[object] = set()
    for sample in samples:
        units = set(sample.units.tolist())
        if units & seen:
            return True
        seen |= units
    return False


def _sums_and_counts(sample: Sample, units: NDArray[np.object_]) -> tuple[FloatArray, FloatArray]:
    index = np.searchsorted(units, sample.units)
    counts = np.bincount(index, minlength=len(units))
    return np.bincount(index, sample.values, len(units)).astype(np.float64), counts.astype(np.float64)


def _resampled(
    tables: list[tuple[FloatArray, FloatArray]],
    weights: list[float],
    units: int,
    seed: int,
    key: str | int,
    resamples: int,
) -> FloatArray:
    """Weighted sums of means, one for each multinomial resample of the units."""
    generator = numpy_generator(seed, "bootstrap", key)
    result = np.empty(resamples)
    step = max(1, _CHUNK_CELLS // units)
    for start in range(0, resamples, step):
        times = generator.multinomial(units, np.full(units, 1 / units), size=min(step, resamples - start)).astype(
            np.float64
        )
        part = np.zeros(len(times))
        for weight, (sums, counts) in zip(weights, tables, strict=True):
            # a small paired resample can miss every unit of one sample; its mean is then left at 0 / 1
            part += weight * (times @ sums) / np.maximum(times @ counts, 1)
        result[start : start + len(times)] = part
    return result
