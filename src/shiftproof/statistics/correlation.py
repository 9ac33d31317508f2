"""Correlations between predicted and true numbers, with a bootstrap over samples or groups of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.statistics.bootstrap import outer_percentiles
from shiftproof.statistics.seeds import over_seeds
from shiftproof.statistics.units import Units, join_units
from shiftproof.types import Estimate, FloatArray

__all__ = ["Correlation", "Pairs", "correlation", "correlation_gap", "pearson", "spearman"]

Correlation = Literal["pearson", "spearman"]
RESAMPLES = 2_000
_CHUNK_CELLS = 1_000_000
"""Resamples times samples that are held at once."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """True numbers (N) of one domain, what each of S trained models predicts (S x N), and the units of a bootstrap.

    A unit is a group where there are groups, else a sample id; equal units of two domains are drawn together.
    """

    truth: FloatArray
    predicted: FloatArray
    units: NDArray[Any] | Units


def pearson(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Pearson's correlation of two rows of numbers; 0 where one of them is constant, which tells nothing.

    >>> pearson([1, 2, 3], [2, 4, 6]), pearson([1, 2, 3], [5, 5, 5])
    (1.0, 0.0)
    """
    x, y = _checked(truth, predicted)
    return float(_weighted_pearson(np.ones((1, len(x))), x[None], y[None])[0])


def spearman(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Spearman's rank correlation, with the mean rank where values are equal.

    >>> spearman([1, 2, 3, 4], [1, 10, 100, 1000])
    1.0
    """
    x, y = _checked(truth, predicted)
    return float(_weighted_spearman(np.ones((1, len(x))), x, y)[0])


def correlation(
    pairs: Pairs, kind: Correlation = "pearson", seed: int = 0, *, resamples: int = RESAMPLES, level: float = 0.95
) -> Estimate:
    """The mean over trained models of their correlation, with a percentile interval over units.

    Of several models the interval also counts how much they differ (`over_seeds`).
    """
    return _estimate([pairs], [1.0], kind, seed, resamples, level)


def correlation_gap(
    sources: Sequence[Pairs],
    target: Pairs,
    kind: Correlation = "pearson",
    seed: int = 0,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """How much correlation is lost on the way: mean over sources less target, above 0 if the target is worse."""
    if not sources:
        raise UsageError("a gap needs at least one source")
    return _estimate([*sources, target], [*[1 / len(sources)] * len(sources), -1.0], kind, seed, resamples, level)


def _estimate(
    domains: Sequence[Pairs], weights: Sequence[float], kind: Correlation, seed: int, resamples: int, level: float
) -> Estimate:
    if any(len(one.truth) < 2 for one in domains):
        raise UsageError("a correlation needs at least two samples of every domain")
    signs, of = np.array(weights), _KINDS[kind]
    per_seed = signs @ np.array(
        [[of(np.ones((1, len(d.truth))), d.truth, one)[0] for one in d.predicted] for d in domains]
    )
    parts = [
        [
            np.mean([of(times, d.truth, one) for one in d.predicted], axis=0)
            for d, times in zip(domains, some, strict=True)
        ]
        for some in _resampled_counts(domains, seed, resamples)
    ]
    drawn = [np.concatenate(rows) for rows in zip(*parts, strict=True)]
    # of few samples a bootstrap of correlations is too sure of itself
    ends = outer_percentiles([one.units for one in domains], level, few_samples=True)
    low, high = np.quantile(signs @ np.array(drawn), ends)
    value, n = float(per_seed.mean()), sum(len(one.truth) for one in domains)
    method = f"bootstrap of {kind.capitalize()}'s correlation"
    estimate = Estimate(value, min(float(low), value), max(float(high), value), n, level, method)
    return over_seeds(estimate, per_seed.tolist(), (-1.0, 1.0) if len(domains) == 1 else (-2.0, 2.0))


def _resampled_counts(domains: Sequence[Pairs], seed: int, resamples: int) -> Iterator[list[FloatArray]]:
    """How often every sample of each domain is in every resample (resamples x N), some resamples at a time.

    Units are drawn among those that occur in the same domains, as in `bootstrap_difference`.
    """
    units, parts = join_units([Units.of(one.units) for one in domains])
    member = np.stack([np.bincount(part, minlength=len(units)) > 0 for part in parts], 1)
    _, stratum = np.unique(member, axis=0, return_inverse=True)
    strata = [np.flatnonzero(stratum.ravel() == number) for number in range(int(stratum.max()) + 1)]
    generators = [numpy_generator(seed, "bootstrap of correlations", units[int(rows[0])].as_py()) for rows in strata]
    # at least two rows: numpy lays out one row otherwise, and then adds in another order
    for some in np.array_split(
        np.arange(resamples), max(1, min(resamples // 2, resamples * len(units) // _CHUNK_CELLS))
    ):
        counts = np.zeros((len(some), len(units)))
        for rows, generator in zip(strata, generators, strict=True):
            shares = np.full(len(rows), 1 / len(rows))
            counts[:, rows] = generator.multinomial(len(rows), shares, size=len(some))
        yield [counts[:, part] for part in parts]


def _weighted_pearson(times: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Of numbers (N, or a row for each resample) that occur so often (resamples x N)."""
    total = times.sum(1, keepdims=True)
    x, y = _to_unit(x), _to_unit(y)
    x, y = (values - (times * values).sum(1, keepdims=True) / total for values in (x, y))
    product, squares = (times * x * y).sum(1), (times * x * x).sum(1) * (times * y * y).sum(1)
    # what is constant but for rounding says nothing
    return np.where(squares > 1e-24, product / np.sqrt(np.maximum(squares, 1e-300)), 0.0).clip(-1, 1)


def _to_unit(values: FloatArray) -> FloatArray:
    """The same numbers on a scale from -1 to 1, which no correlation depends on: squares of them stay in range."""
    middle = values / 2
    centred = middle - (middle.min() / 2 + middle.max() / 2)
    largest = float(np.abs(centred).max())
    scaled: FloatArray = centred / largest if largest > 0 else centred
    return scaled


def _weighted_spearman(times: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    return _weighted_pearson(times, _ranks(times, x), _ranks(times, y))


def _ranks(times: FloatArray, values: FloatArray) -> FloatArray:
    """Mean ranks of values (N) that occur so often (resamples x N), in every resample."""
    _, place = np.unique(values, return_inverse=True)
    of_value = np.zeros((len(times), int(place.max()) + 1))
    np.add.at(of_value.T, place, times.T)
    ranks: FloatArray = (of_value.cumsum(1) - (of_value - 1) / 2)[:, place]
    return ranks


_KINDS: dict[str, Callable[[FloatArray, FloatArray, FloatArray], FloatArray]] = {
    "pearson": _weighted_pearson,
    "spearman": _weighted_spearman,
}


def _checked(truth: ArrayLike, predicted: ArrayLike) -> tuple[FloatArray, FloatArray]:
    x, y = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(x) < 2:
        raise UsageError(
            f"a correlation needs two rows of equal length, at least two each, not {x.shape} and {y.shape}"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise UsageError("a correlation needs finite numbers")
    return x, y
