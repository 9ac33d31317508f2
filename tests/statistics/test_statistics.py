"""Intervals against exact answers, the bootstrap by coverage."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from shiftproof.errors import UsageError
from shiftproof.statistics import (
    Sample,
    bootstrap_difference,
    bootstrap_mean,
    bootstrap_ratios,
    interval,
    lower_bound,
    upper_bound,
)


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
    assert upper_bound(0, 10, 1e-17) == pytest.approx(1 - 1e-17**0.1)
    assert upper_bound(0, 10_000_000, 0.05) == pytest.approx(-np.log(0.05) / 1e7, rel=1e-6)


def test_interval_covers_by_enumeration() -> None:
    n, p = 40, 0.83
    covered = [k for k in range(n + 1) if interval(k, n).low <= p <= interval(k, n).high]
    assert binom.pmf(covered, n, p).sum() >= 0.95


@pytest.mark.parametrize(
    ("k", "n", "alpha"),
    [(5, 4, 0.1), (-1, 4, 0.1), (0, 0, 0.1), (1, 2, 0.0), (1, 2, 1.0), (1.5, 2, 0.1), (float("nan"), 2, 0.1)],
)
def test_impossible_counts_are_refused(k: float, n: int, alpha: float) -> None:
    with pytest.raises(UsageError):
        lower_bound(k, n, alpha)


def sample(values: np.ndarray, units: list[str]) -> Sample:
    return Sample(values.astype(float), np.array(units, object))


LIMITS = (0.0, 1.0)


def covered(draw: object, truth: float, limits: tuple[float, float] | None = LIMITS, repetitions: int = 400) -> float:
    generator = np.random.default_rng(0)
    hits = 0
    # 400 repetitions at 95 %: one standard error is 1.1 points, and tests allow for two and a half
    for repetition in range(repetitions):
        plus, minus = draw(generator)  # type: ignore[operator]
        estimate = bootstrap_difference(plus, minus, seed=repetition, limits=limits, resamples=500)
        hits += estimate.low <= truth <= estimate.high
    return hits / repetitions


def test_two_sample_bootstrap_covers() -> None:
    def draw(generator: np.random.Generator) -> tuple[list[Sample], list[Sample]]:
        sources = [sample(generator.random(150) < p, [f"{p}-{i}" for i in range(150)]) for p in (0.9, 0.8)]
        return sources, [sample(generator.random(200) < 0.4, [f"t-{i}" for i in range(200)])]

    assert 0.92 <= covered(draw, 0.45) <= 0.98


def test_limits_keep_the_promise_near_the_edge_where_a_plain_bootstrap_breaks_it() -> None:
    def draw(generator: np.random.Generator) -> tuple[list[Sample], list[Sample]]:
        pairs = [("s", 0.99), ("t", 0.98)]
        source, target = (sample(generator.random(100) < p, [f"{name}{i}" for i in range(100)]) for name, p in pairs)
        return [source], [target]

    assert covered(draw, 0.01) >= 0.92
    assert covered(draw, 0.01, limits=None) <= 0.88
    perfect = sample(np.ones(5), list("abcde"))
    other = sample(np.ones(4), list("fghi"))
    estimate = bootstrap_difference([perfect], [other], limits=LIMITS)
    assert (estimate.value, estimate.low < -0.2, estimate.high > 0.2) == (0.0, True, True)


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

    assert covered(draw(True), 0.2) >= 0.92
    assert covered(draw(False), 0.2) <= 0.70


def test_a_mean_over_groups_covers() -> None:
    generator, hits = np.random.default_rng(0), 0
    for repetition in range(400):
        rates = generator.beta(3.2, 0.8, 25)
        values = np.concatenate([generator.random(10) < rate for rate in rates])
        estimate = bootstrap_mean(
            sample(values, [str(i // 10) for i in range(250)]), seed=repetition, limits=LIMITS, resamples=500
        )
        hits += estimate.low <= 0.8 <= estimate.high
    assert 0.92 <= hits / 400 <= 0.99


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

    assert 0.92 <= covered(draw, 0.08) <= 0.99


def test_one_shared_unit_does_not_spoil_the_others() -> None:
    # resampling all units jointly could miss both units of the first sample, and call its mean 0
    few = sample(np.ones(2), ["a", "shared"])
    many = sample(np.ones(501), ["shared", *(f"b{i}" for i in range(500))])
    estimate = bootstrap_difference([few], [many])
    assert (estimate.low, estimate.high) == (0.0, 0.0)


def test_the_order_of_samples_does_not_matter() -> None:
    generator = np.random.default_rng(0)
    one, two, target = (sample(generator.random(60), [f"{n}{i}" for i in range(60)]) for n in "xyz")
    forward, backward = (bootstrap_difference(s, [target], limits=LIMITS) for s in ([one, two], [two, one]))
    assert (forward.low, forward.high) == pytest.approx((backward.low, backward.high), abs=1e-12)


def test_bootstrap_is_seeded_and_refuses_nothing() -> None:
    generator = np.random.default_rng(0)
    values = sample(generator.random(50), [str(i) for i in range(50)])
    other = sample(generator.random(50), [f"o{i}" for i in range(50)])
    assert bootstrap_difference([values], [other], seed=3) == bootstrap_difference([values], [other], seed=3)
    assert bootstrap_difference([values], [other], seed=3) != bootstrap_difference([values], [other], seed=4)
    with pytest.raises(UsageError):
        bootstrap_difference([], [other])


class TestRatios:
    """What is left of one measure on the target, less what is left of another."""

    def sample(self, name: str, values: np.ndarray) -> Sample:
        return Sample(values.astype(np.float64), np.array([f"{name}/{i}" for i in range(len(values))], object))

    def test_value(self) -> None:
        one = [self.sample("s", np.arange(10) < 5)], self.sample("t", np.arange(10) < 2)
        other = [self.sample("s", np.arange(10) < 8)], self.sample("t", np.arange(10) < 8)
        estimate = bootstrap_ratios(one, other)
        assert estimate.value == pytest.approx(0.4 - 1.0)
        assert estimate.low <= estimate.value <= estimate.high

    @pytest.mark.parametrize(("left", "strong"), [(0.8, 0.4), (0.5, 0.1)])
    def test_seldom_claims_a_difference_that_is_none(self, left: float, strong: float) -> None:
        generator, wrong = np.random.default_rng(3), 0
        for repetition in range(200):
            drawn = {}
            for name, part in (("s", 1.0), ("t", left)):
                uniform = generator.random(60)
                drawn[name] = (self.sample(name, uniform < strong * part), self.sample(name, uniform < 0.9 * part))
            measures = [([drawn["s"][kind]], drawn["t"][kind]) for kind in (0, 1)]
            estimate = bootstrap_ratios(*measures, seed=repetition)
            wrong += estimate.low > 0 or estimate.high < 0
        assert wrong <= 20
