"""Intervals against exact answers, the bootstrap by coverage."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from shiftproof.errors import UsageError
from shiftproof.statistics import Sample, bootstrap_difference, interval, lower_bound, upper_bound


@pytest.mark.parametrize(
    ("k", "n", "alpha", "z"),
    [
        (100_000, 100_000, 0.001, 3.811457),  # alpha ** (1 / n)
        (99_000, 100_000, 0.001, 2.290000),
        (90_000, 100_000, 0.001, 1.264845),
        (60_000, 100_000, 0.001, 0.240945),
        (66, 100, 0.001, 0.004136),  # the smallest count of 100 that certifies
    ],
)
def test_lower_bound_at_known_counts(k: int, n: int, alpha: float, z: float) -> None:
    assert norm.ppf(lower_bound(k, n, alpha)) == pytest.approx(z, abs=1e-6)


def test_bounds_solve_their_defining_equations() -> None:
    k, n, alpha = np.array([1, 5, 50, 99]), 100, 0.01
    assert binom.sf(k - 1, n, lower_bound(k, n, alpha)) == pytest.approx(alpha)
    assert binom.cdf(k, n, upper_bound(k, n, alpha)) == pytest.approx(alpha)


def test_bounds_at_the_edges() -> None:
    assert lower_bound(0, 10, 0.05) == 0
    assert upper_bound(10, 10, 0.05) == 1
    assert lower_bound(10, 10, 0.05) == pytest.approx(0.05**0.1)
    assert upper_bound(0, 10_000_000, 0.05) == pytest.approx(-np.log(0.05) / 1e7, rel=1e-6)


def test_interval_covers_by_enumeration() -> None:
    n, p = 40, 0.83
    covered = [k for k in range(n + 1) if interval(k, n).low <= p <= interval(k, n).high]
    assert binom.pmf(covered, n, p).sum() >= 0.95


@pytest.mark.parametrize(("k", "n", "alpha"), [(5, 4, 0.1), (-1, 4, 0.1), (0, 0, 0.1), (1, 2, 0.0), (1, 2, 1.0)])
def test_impossible_counts_are_refused(k: int, n: int, alpha: float) -> None:
    with pytest.raises(UsageError):
        lower_bound(k, n, alpha)


def sample(values: np.ndarray, units: list[str]) -> Sample:
    return Sample(values.astype(float), np.array(units, object))


def covered(draw: object, truth: float, repetitions: int = 300) -> float:
    generator = np.random.default_rng(0)
    hits = 0
    for repetition in range(repetitions):
        plus, minus = draw(generator)  # type: ignore[operator]
        estimate = bootstrap_difference(plus, minus, seed=repetition, resamples=500)
        hits += estimate.low <= truth <= estimate.high
    return hits / repetitions


def test_two_sample_bootstrap_covers() -> None:
    def draw(generator: np.random.Generator) -> tuple[list[Sample], list[Sample]]:
        sources = [sample(generator.random(150) < p, [f"{p}-{i}" for i in range(150)]) for p in (0.9, 0.8)]
        return sources, [sample(generator.random(200) < 0.4, [f"t-{i}" for i in range(200)])]

    assert 0.91 <= covered(draw, 0.45) <= 0.985


def test_grouped_bootstrap_covers_where_an_ungrouped_one_would_not() -> None:
    def draw(grouped: bool) -> object:
        def one(generator: np.random.Generator, name: str, p: float) -> Sample:
            values, units = [], []
            for patient in range(40):
                # a patient's samples are all alike: 40 independent pieces of evidence, not 400
                values += [generator.random() < p] * 10
                units += [f"{name}-{patient}" if grouped else f"{name}-{patient}-{i}" for i in range(10)]
            return sample(np.array(values), units)

        return lambda generator: ([one(generator, "s", 0.7)], [one(generator, "t", 0.5)])

    assert covered(draw(True), 0.2) >= 0.90
    assert covered(draw(False), 0.2) <= 0.70


def test_paired_bootstrap_is_narrower_when_the_same_samples_are_measured_twice() -> None:
    generator = np.random.default_rng(1)
    easy = generator.random(400) < 0.7
    harder = easy & (generator.random(400) < 0.95)
    names = [str(i) for i in range(400)]
    paired = bootstrap_difference([sample(easy, names)], [sample(harder, names)])
    apart = bootstrap_difference([sample(easy, names)], [sample(harder, [f"other-{n}" for n in names])])
    assert paired.method == "paired bootstrap"
    assert apart.method == "two-sample bootstrap"
    assert paired.value == apart.value
    assert paired.high - paired.low < 0.5 * (apart.high - apart.low)


def test_paired_bootstrap_covers() -> None:
    def draw(generator: np.random.Generator) -> tuple[list[Sample], list[Sample]]:
        easy = generator.random(200) < 0.8
        harder = easy & (generator.random(200) < 0.9)
        names = [str(i) for i in range(200)]
        return [sample(easy, names)], [sample(harder, names)]

    assert 0.90 <= covered(draw, 0.08) <= 0.99


def test_bootstrap_is_seeded_and_refuses_nothing() -> None:
    values = sample(np.arange(10) % 2, [str(i) for i in range(10)])
    other = sample(np.arange(10) % 3 == 0, [f"o{i}" for i in range(10)])
    assert bootstrap_difference([values], [other], seed=3) == bootstrap_difference([values], [other], seed=3)
    assert bootstrap_difference([values], [other], seed=3) != bootstrap_difference([values], [other], seed=4)
    with pytest.raises(UsageError):
        bootstrap_difference([], [other])
