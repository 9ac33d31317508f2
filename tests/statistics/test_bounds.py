"""Bounds against closed forms, exact enumeration and reference values that can be checked by hand."""

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, norm

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.statistics import (
    bernoulli_round,
    bernstein_lower,
    bernstein_upper,
    hoeffding_lower,
    hoeffding_upper,
    lower_bound,
    quantile_lower_index,
    quantile_upper_index,
    randomized_lower_bound,
    randomized_upper_bound,
    sequence_lower,
    sequence_upper,
    upper_bound,
)

Bound = Callable[..., NDArray[np.float64]]
ALPHA = 0.001


# ------------------------------------------------------------------------------------ votes, n fixed in advance


@pytest.mark.parametrize(
    ("k", "n", "z"),
    [
        (100, 100, 1.500475024),
        (99, 100, 1.349259039),
        (75, 100, 0.246605317),
        (51, 100, -0.374139682),
        (1_000, 1_000, 2.463262615),
        (950, 1_000, 1.439862021),
        (10_000, 10_000, 3.198577515),
        (9_990, 10_000, 2.818598300),
        (6_000, 10_000, 0.214054369),
        (100_000, 100_000, 3.811456563),
        (99_999, 100_000, 3.739126669),
        (99_900, 100_000, 3.000200988),
        (80_000, 100_000, 0.827651563),
        (50_000, 100_000, -0.012260118),
        (1_000_000, 1_000_000, 4.346773699),
    ],
)
def test_clopper_pearson_at_known_counts(k: int, n: int, z: float) -> None:
    assert norm.ppf(lower_bound(k, n, ALPHA)) == pytest.approx(z, abs=2e-9)
    assert -norm.ppf(upper_bound(n - k, n, ALPHA)) == pytest.approx(z, abs=2e-9)


@pytest.mark.parametrize(("n", "k"), [(100, 66), (1_000, 550), (10_000, 5_156), (100_000, 50_490)])
def test_the_smallest_count_that_certifies(n: int, k: int) -> None:
    below, at = lower_bound([k - 1, k], n, ALPHA)
    assert below < 0.5 < at


@pytest.mark.parametrize("n", [1, 7, 1_000, 10_000_000])
@pytest.mark.parametrize("alpha", [0.3, ALPHA, 1e-12])
def test_clopper_pearson_where_all_or_none_succeed(n: int, alpha: float) -> None:
    miss = -math.expm1(math.log(alpha) / n)
    assert lower_bound(n, n, alpha) == pytest.approx(alpha ** (1 / n), rel=1e-14)
    assert upper_bound(0, n, alpha) == pytest.approx(miss, rel=1e-12)
    assert (lower_bound(0, n, alpha), upper_bound(n, n, alpha)) == (0, 1)
    # one success of n: 1 - (1 - p) ** n = alpha
    assert lower_bound(1, n, alpha) == pytest.approx(-math.expm1(math.log1p(-alpha) / n), rel=1e-12)


def test_levels_may_differ_between_rows() -> None:
    levels = np.array([[0.05], [0.001]])
    together = lower_bound([50, 90], 100, levels)
    assert together.shape == (2, 2)
    assert together[1] == pytest.approx(lower_bound([50, 90], 100, 0.001), rel=1e-15)
    assert sequence_upper([50, 90], 100, levels)[0] == pytest.approx(sequence_upper([50, 90], 100, 0.05), rel=1e-11)


@pytest.mark.parametrize("n", [1, 5, 20])
@pytest.mark.parametrize("alpha", [0.05, ALPHA])
@pytest.mark.parametrize("p", [0.02, 0.3, 0.49, 0.9, 0.96])
def test_randomized_bound_errs_with_probability_alpha_exactly(n: int, alpha: float, p: float) -> None:
    k = np.arange(n + 1)
    low, high = np.zeros(n + 1), np.ones(n + 1)
    for _ in range(40):  # the bound falls in u: it exceeds p for u below some value, the probability of an error at k
        u = (low + high) / 2
        wrong = randomized_lower_bound(k, n, alpha, u) > p
        low, high = np.where(wrong, u, low), np.where(wrong, high, u)
    error = binom.pmf(k, n, p) @ low
    # one part in a billion is the tolerance of 40 halvings and of the solution
    assert error == pytest.approx(alpha if p < 0.5 ** (1 / n) else 0.0, rel=1e-9, abs=1e-11)


def test_randomized_bound_lies_between_two_plain_ones() -> None:
    k, n = np.arange(41), 40
    u = numpy_generator(0, "test").random(41)
    drawn = randomized_lower_bound(k, n, 0.01, u)
    assert np.all(drawn >= lower_bound(k, n, 0.01) - 1e-15)
    assert np.all(drawn[:-1] <= lower_bound(k[1:], n, 0.01) + 1e-15)
    assert randomized_lower_bound(k[:-1], n, 0.01, 0.0) == pytest.approx(lower_bound(k[1:], n, 0.01), rel=1e-10)
    assert randomized_upper_bound(n - k, n, 0.01, u) == pytest.approx(1 - drawn, abs=1e-15)


@pytest.mark.parametrize("n", [1, 100, 10_000_000])
def test_luck_with_u_is_capped(n: int) -> None:
    miss = randomized_upper_bound(0, n, ALPHA, [0.0, ALPHA / 2, ALPHA, 2 * ALPHA, 0.5])
    assert miss[:4] == pytest.approx(-math.expm1(math.log(0.5) / n), rel=1e-9)
    assert miss[4] == pytest.approx(-math.expm1(math.log(ALPHA / 0.5) / n), rel=1e-9)
    # with a level above one half, plain and randomized are the same where all succeed
    assert randomized_lower_bound(n, n, 0.7, 0.1) == pytest.approx(0.7 ** (1 / n), rel=1e-12)


# ------------------------------------------------------------------------------------ votes, stop whenever you like


def mixture(k: int, t: int, miss: float) -> float:
    """The sequence's likelihood ratio against 1 - miss, by quadrature: q = cos^2 makes Jeffreys' weights uniform."""
    end = math.asin(math.sqrt(miss))

    def ratio(angle: float) -> float:
        other = math.sin(angle) ** 2
        failures = (t - k) * math.log(other / miss) if t > k else 0.0
        return math.exp(k * (math.log1p(-other) - math.log1p(-miss)) + failures)

    return float(quad(ratio, 1e-12 * end, end, epsabs=0, epsrel=1e-11, limit=200)[0] / end)


@pytest.mark.parametrize(("k", "t"), [(1, 1), (1, 9), (5, 5), (7, 10), (60, 100), (100, 100), (990, 1_000)])
@pytest.mark.parametrize("alpha", [0.3, ALPHA, 1e-6])
def test_sequence_solves_its_equation_from_the_safe_side(k: int, t: int, alpha: float) -> None:
    miss = float(sequence_upper(t - k, t, alpha))
    value = mixture(k, t, miss) * alpha
    assert value == pytest.approx(1, rel=1e-8)
    assert value >= 1 - 1e-10
    assert sequence_lower(k, t, alpha) == pytest.approx(1 - miss, abs=1e-15)


@pytest.mark.parametrize("failures", [0, 1, 3])
@pytest.mark.parametrize("t", [100_000, 990_000, 10_000_000])
def test_sequence_keeps_its_digits_near_certain_success(failures: int, t: int) -> None:
    exact = brentq(lambda m: math.log(mixture(t - failures, t, m) * ALPHA), (failures + 1) / t, 40 / t, rtol=1e-13)
    miss = float(sequence_upper(failures, t, ALPHA))
    assert miss == pytest.approx(exact, rel=1e-9)
    assert miss >= exact * (1 - 1e-11)


@pytest.mark.parametrize(("k", "z"), [(100_000, 3.7728), (99_000, 2.2738), (70_000, 0.5041)])
def test_sequence_at_known_counts(k: int, z: float) -> None:
    assert -norm.ppf(sequence_upper(100_000 - k, 100_000, ALPHA)) == pytest.approx(z, abs=5e-5)


def crossing(bound: Bound, p: float, alpha: float, steps: int) -> float:
    """The exact probability that the bound exceeds p at some t up to `steps`, by following all counts at once."""
    times = np.arange(1, steps + 1)
    below, first = np.full(steps, -1), times + 1
    while np.any(first - below > 1):
        middle = (below + first) // 2
        exceeds = bound(np.minimum(middle, times), times, alpha) > p
        below, first = np.where(exceeds, below, middle), np.where(exceeds, middle, first)
    alive, crossed = np.zeros(steps + 2), 0.0
    alive[0] = 1.0
    for limit in first:
        alive[1:] = alive[1:] * (1 - p) + alive[:-1] * p
        alive[0] *= 1 - p
        crossed += alive[limit:].sum()
        alive[limit:] = 0.0
    return crossed


@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_sequence_may_be_watched_at_every_step(p: float) -> None:
    assert 0.0004 <= crossing(sequence_lower, p, ALPHA, 3_000) <= ALPHA


@pytest.mark.parametrize("p", [0.5, 0.8, 0.95])
def test_clopper_pearson_may_not(p: float) -> None:
    assert crossing(lower_bound, p, ALPHA, 3_000) > 5 * ALPHA


@settings(deadline=None, max_examples=60)
@given(data=st.data(), t=st.integers(0, 10_000_000), alpha=st.floats(1e-12, 0.9))
def test_sequence_is_ordered(data: st.DataObject, t: int, alpha: float) -> None:
    k = data.draw(st.integers(0, t))
    low, high = sequence_lower(k, t, alpha), sequence_upper(k, t, alpha)
    assert 0 <= low <= (k / t if t else 0)
    assert (k / t if t else 1) <= high <= 1
    if t:
        assert low <= lower_bound(k, t, alpha)
        assert high >= upper_bound(k, t, alpha)
        more = np.arange(k, min(k + 5, t) + 1)
        assert np.all(np.diff(sequence_lower(more, t, alpha)) > 0)


def test_sequence_without_trials_says_nothing() -> None:
    assert (sequence_lower(0, 0, ALPHA), sequence_upper(0, 0, ALPHA)) == (0, 1)
    assert sequence_lower([], [], ALPHA).shape == (0,)


def test_ten_thousand_sequences_are_quick() -> None:
    t = np.arange(1, 10_001) * 10
    start = time.process_time()
    sequence_lower(t * 9 // 10, t, ALPHA)
    # a twentieth of a second on one core; the margin is for busy machines
    assert time.process_time() - start < 1


# ------------------------------------------------------------------------------------ soft scores


@pytest.mark.parametrize(
    ("mean", "variance", "n", "alpha", "hoeffding", "bernstein"),
    [
        (0.99, 0.0099, 100_000, 0.001, 0.98412303, 0.98859587),
        (0.7, 0.01, 1_000, 0.05, 0.66129772, 0.68279461),
        (0.5, 0.0, 3, 0.5, 0.16011100, 0.0),  # 7 log 4 / 6 is more than there is
    ],
)
def test_bounds_on_a_mean(
    mean: float, variance: float, n: int, alpha: float, hoeffding: float, bernstein: float
) -> None:
    assert hoeffding_lower(mean, n, alpha) == pytest.approx(hoeffding, abs=1e-8)
    assert bernstein_lower(mean, variance, n, alpha) == pytest.approx(bernstein, abs=1e-8)
    assert hoeffding_upper(1 - mean, n, alpha) == pytest.approx(1 - hoeffding, abs=1e-8)
    assert bernstein_upper(1 - mean, variance, n, alpha) == pytest.approx(1 - bernstein, abs=1e-8)


def test_bounds_on_a_mean_cover() -> None:
    scores = numpy_generator(0, "test", "scores").beta(8, 2, size=(4_000, 200))
    mean, variance = scores.mean(1), scores.var(1, ddof=1)
    for low, high in [
        (hoeffding_lower(mean, 200, 0.1), hoeffding_upper(mean, 200, 0.1)),
        (bernstein_lower(mean, variance, 200, 0.1), bernstein_upper(mean, variance, 200, 0.1)),
    ]:
        assert np.mean(low > 0.8) <= 0.1
        assert np.mean(high < 0.8) <= 0.1


def test_soft_votes_certify_at_most_the_closed_form() -> None:
    # a probit model Phi(w.x + b) under noise of size sigma has the mean Phi((w.x + b) / sqrt(1 + sigma^2 |w|^2))
    weights, bias, x, sigma, n = np.array([3.0, 4.0]), 0.5, np.array([0.2, 0.1]), 0.5, 5_000
    exact = sigma * (weights @ x + bias) / math.sqrt(1 + sigma**2 * weights @ weights)
    radii = []
    for seed in range(40):
        generator = numpy_generator(seed, "test", "probit")
        scores = norm.cdf((x + sigma * generator.standard_normal((n, 2))) @ weights + bias)
        votes = bernoulli_round(scores, generator.random(n))
        mean, variance = scores.mean(), scores.var(ddof=1)
        bounds = [
            lower_bound(votes.sum(), n, ALPHA),
            sequence_lower(votes.sum(), n, ALPHA),
            hoeffding_lower(mean, n, ALPHA),
            bernstein_lower(mean, variance, n, ALPHA),
        ]
        radii.append(sigma * norm.ppf(bounds))
    assert exact == pytest.approx(0.278543, abs=1e-6)
    assert np.all(np.array(radii) <= exact)
    # Phi^-1 magnifies a step of 3.09 standard errors by the inverse density: sqrt(p (1 - p)) / phi = 1.33
    assert np.mean(radii, axis=0)[0] == pytest.approx(exact - sigma * 3.09 / math.sqrt(n) * 1.33, abs=0.004)


def test_rounded_votes_have_the_mean_of_their_scores() -> None:
    uniforms = (np.arange(1_000) + 0.5) / 1_000
    for score in (0.0, 0.125, 0.5, 0.999, 1.0):
        votes = bernoulli_round(np.full(1_000, score), uniforms)
        assert set(np.unique(votes)) <= {0, 1}
        assert votes.mean() == pytest.approx(score, abs=1e-12)


# ------------------------------------------------------------------------------------ quantiles


@pytest.mark.parametrize(
    ("r", "low", "high"),
    [(0.0, 192, 309), (0.1, 40, 461), (0.1849, 1, 500), (0.19, 0, 501)],  # finite up to r = 0.18493
)
def test_order_statistics_of_a_median_certificate(r: float, low: int, high: int) -> None:
    n, sigma, alpha = 500, 0.1, 1e-4 / (2 * 640)
    assert quantile_lower_index(n, norm.cdf(-r / sigma), alpha) == low
    assert quantile_upper_index(n, norm.cdf(r / sigma), alpha) == high


@pytest.mark.parametrize("alpha", [0.2, 0.01, 1e-9, 1e-18])
def test_order_statistics_are_the_best_that_hold(alpha: float) -> None:
    n, p = 60, np.array([0.0, 0.01, 0.2, 0.5, 0.93, 1.0])
    low, high = quantile_lower_index(n, p, alpha), quantile_upper_index(n, p, alpha)
    assert np.all(binom.cdf(low - 1, n, p) <= alpha)
    assert np.all(binom.cdf(low, n, p)[low < n] > alpha)
    assert np.all(binom.sf(high - 1, n, p) <= alpha)
    assert np.all(binom.sf(high - 2, n, p)[high > 1] > alpha)
    assert (low[0], low[-1], high[0], high[-1]) == (0, n, 1, n + 1)
    assert np.array_equal(high, n + 1 - quantile_lower_index(n, 1 - p, alpha))


def test_order_statistics_cover() -> None:
    samples = np.sort(numpy_generator(0, "test", "quantile").standard_normal((4_000, 100)), axis=1)
    low, high = int(quantile_lower_index(100, 0.3, 0.05)), int(quantile_upper_index(100, 0.3, 0.05))
    assert 0.01 <= np.mean(samples[:, low - 1] > norm.ppf(0.3)) <= 0.05 + 3 * math.sqrt(0.05 / 4_000)
    assert 0.01 <= np.mean(samples[:, high - 1] < norm.ppf(0.3)) <= 0.05 + 3 * math.sqrt(0.05 / 4_000)


# ------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: lower_bound(5, 4, 0.1), "counts are 5 of 4"),
        (lambda: lower_bound([1, 1.5], 2, 0.1), "counts are 1.5 of 2"),
        (lambda: lower_bound(0, 0, 0.1), "n >= 1"),
        (lambda: lower_bound(float("nan"), 2, 0.1), "counts are nan of 2"),
        (lambda: upper_bound(1, math.inf, 0.1), "counts are 1 of inf"),
        (lambda: upper_bound(1, 2, [0.1, 1.0]), "alpha is 1;"),
        (lambda: upper_bound([1, 2], [3, 4, 5], 0.1), "do not broadcast"),
        (lambda: sequence_lower(-1, 4, 0.1), "counts are -1 of 4"),
        (lambda: sequence_upper(1, 0, 0.1), "counts are 1 of 0"),
        (lambda: sequence_lower(1, 2, 0.0), "alpha is 0;"),
        (lambda: randomized_lower_bound(1, 2, 0.1, 1.0), r"u has 1; it lies in \[0, 1\)"),
        (lambda: randomized_lower_bound(1, 2, 0.1, float("nan")), "u has nan"),
        (lambda: randomized_upper_bound([1, 1], 2, 0.1, [0.1, 0.2, 0.3]), "do not broadcast"),
        (lambda: hoeffding_lower(1.1, 10, 0.1), r"mean has 1.1; it lies in \[0, 1\]"),
        (lambda: hoeffding_upper(0.5, 0, 0.1), "n is 0; it is a whole number of at least 1"),
        (lambda: bernstein_lower(0.5, 0.1, 1, 0.1), "at least 2"),
        (lambda: bernstein_lower(0.5, -0.1, 10, 0.1), "variance"),
        (lambda: bernstein_upper(0.9, 0.2, 10, 0.1), "variance"),
        (lambda: bernoulli_round([0.5, -0.1], [0.5, 0.5]), "scores has -0.1"),
        (lambda: bernoulli_round([0.5], [1.0]), "uniforms has 1;"),
        (lambda: bernoulli_round([0.5, 0.5], [0.5]), "as many uniforms"),
        (lambda: quantile_lower_index(10, 1.5, 0.1), "p has 1.5"),
        (lambda: quantile_upper_index(2.5, 0.5, 0.1), "n is 2.5"),
    ],
)
def test_arguments_without_meaning_are_refused(call: Callable[[], object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        call()
