"""Correlations against scipy, and intervals that cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from shiftproof.errors import UsageError
from shiftproof.statistics import Pairs, correlation, correlation_gap, pearson, spearman
from shiftproof.statistics.correlation import _weighted_pearson, _weighted_spearman
from shiftproof.types import FloatArray


def draw(n: int, rho: float, seed: int) -> tuple[FloatArray, FloatArray]:
    """Normal pairs with a known correlation."""
    generator = np.random.default_rng(seed)
    x, noise = generator.standard_normal((2, n))
    return x, rho * x + np.sqrt(1 - rho**2) * noise


def pairs_of(truth: FloatArray, *predicted: FloatArray, first: int = 0) -> Pairs:
    units = np.array([str(first + i) for i in range(len(truth))], object)
    return Pairs(truth, np.stack(predicted), units)


@pytest.mark.parametrize("seed", range(5))
def test_both_are_those_of_scipy_with_ties_too(seed: int) -> None:
    x, y = draw(40, 0.6, seed)
    for one, other in ((x, y), (x.round(), y.round()), (np.repeat(x[:20], 2), y)):
        assert pearson(one, other) == pytest.approx(stats.pearsonr(one, other).statistic, abs=1e-12)
        assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-12)


def test_samples_drawn_several_times_count_several_times() -> None:
    x, y = (values.round(1) for values in draw(30, 0.4, 0))
    times = np.random.default_rng(1).multinomial(30, np.full(30, 1 / 30), size=8)
    for row in times:
        one, other = np.repeat(x, row), np.repeat(y, row)
        weights = row[None].astype(float)
        assert _weighted_pearson(weights, x, y)[0] == pytest.approx(stats.pearsonr(one, other).statistic, abs=1e-12)
        assert _weighted_spearman(weights, x, y)[0] == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-12, 1e-7, 1.0, 1e100, 1e200])
def test_no_scale_of_the_numbers_matters(scale: float) -> None:
    x, y = draw(40, 0.6, 0)
    assert pearson(scale * x, scale * y + scale) == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert pearson([scale, scale], [1.0, 2.0]) == 0


@pytest.mark.parametrize(
    ("kind", "rho", "n"),
    [
        ("pearson", 0.0, 120),
        ("pearson", 0.85, 120),
        ("spearman", 0.85, 120),
        ("pearson", 0.8, 10),
        ("pearson", 0.0, 10),
    ],
)
def test_intervals_cover(kind: str, rho: float, n: int) -> None:
    true = rho if kind == "pearson" else 6 / np.pi * np.arcsin(rho / 2)
    covered = 0
    for seed in range(200):
        e = correlation(pairs_of(*draw(n, rho, seed)), kind, seed, resamples=400)  # type: ignore[arg-type]
        covered += e.low <= true <= e.high
    # of 200 intervals at 95 %, fewer than 179 cover once in a thousand times
    assert covered >= 179


def test_gaps_cover_for_domains_apart_and_for_pairs() -> None:
    for shared in (False, True):
        covered = 0
        for seed in range(150):
            truth, source = draw(120, 0.9, seed)
            if shared:
                noise = np.random.default_rng(10_000 + seed).standard_normal(120)
                target, first, true = 0.6 * truth + 0.8 * noise, 0, 0.6
            else:
                (other, target), first, true = draw(120, 0.6, 20_000 + seed), 1_000, 0.6
            there = pairs_of(truth if shared else other, target, first=first)
            e = correlation_gap([pairs_of(truth, source)], there, seed=seed, resamples=400)
            covered += e.low <= 0.9 - true <= e.high
        assert covered >= 132


def test_groups_widen_an_interval() -> None:
    generator = np.random.default_rng(0)
    centres = np.repeat(generator.standard_normal((2, 12)), 20, axis=1)
    truth, predicted = centres + 0.1 * generator.standard_normal((2, 240))
    alone = correlation(pairs_of(truth, predicted))
    groups = np.array([str(i // 20) for i in range(240)], object)
    together = correlation(Pairs(truth, predicted[None], groups))
    assert together.value == alone.value
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_several_trainings_widen_it_too() -> None:
    truth, predicted = draw(200, 0.8, 0)
    same = correlation(pairs_of(truth, predicted, predicted, predicted))
    _, worse = truth, draw(200, 0.8, 0)[1] + 2 * np.random.default_rng(3).standard_normal(200)
    apart = correlation(pairs_of(truth, predicted, worse, predicted))
    assert same.low == pytest.approx(correlation(pairs_of(truth, predicted)).low)
    assert apart.value == pytest.approx((2 * pearson(truth, predicted) + pearson(truth, worse)) / 3)
    assert apart.high - apart.low > 2 * (same.high - same.low)
    assert apart.high <= 1


def test_what_is_constant_says_nothing_and_bad_rows_get_a_sentence() -> None:
    assert pearson([1.0, 2.0, 3.0], [7.0, 7.0, 7.0]) == 0
    with pytest.raises(UsageError, match="two rows of equal length, at least two each"):
        pearson([1.0], [1.0])
    with pytest.raises(UsageError, match="finite numbers"):
        spearman([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(UsageError, match="at least one source"):
        correlation_gap([], pairs_of(*draw(5, 0.1, 0)))
