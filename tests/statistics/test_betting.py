"""Bounds by betting: how often they are wrong, that they can be wrong for values in a bad order, and what they cost."""

import numpy as np
import pytest
from scipy.stats import binom

from shiftproof.errors import UsageError
from shiftproof.statistics import bernstein_lower, betting_lower, betting_upper, hoeffding_lower, lower_bound

LAWS = {
    "beta": lambda r, shape: r.beta(4, 6, shape),
    "rare": lambda r, shape: (r.random(shape) < 0.05) * 1.0,
    "two ends": lambda r, shape: r.choice([0.0, 0.3, 1.0], shape, p=[0.5, 0.4, 0.1]),
}
MEANS = {"beta": 0.4, "rare": 0.05, "two ends": 0.22}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("alpha", [0.2, 0.05])
def test_is_wrong_as_seldom_as_it_says(law: str, alpha: float) -> None:
    values = LAWS[law](np.random.default_rng(1), (2_500, 120))
    most = binom.ppf(0.99, len(values), alpha)
    assert (betting_lower(values, alpha) > MEANS[law]).sum() <= most
    assert (betting_upper(values, alpha) < MEANS[law]).sum() <= most


def test_sorted_values_break_it() -> None:
    values = np.sort(np.random.default_rng(2).random((300, 200)), axis=1)[:, ::-1]
    assert (betting_lower(values, 0.05) > 0.5).mean() > 0.5


def test_is_closer_than_bernstein_and_hoeffding_and_near_the_exact_bound_of_votes() -> None:
    generator = np.random.default_rng(3)
    values = generator.beta(20, 80, (200, 200))
    mean, variance = values.mean(1), values.var(1, ddof=1)
    bets = betting_lower(values, 0.01).mean()
    assert bets > bernstein_lower(mean, variance, 200, 0.01).mean() + 0.02
    assert bets > hoeffding_lower(mean, 200, 0.01).mean() + 0.02
    votes = (generator.random((200, 400)) < 0.9) * 1.0
    exact = lower_bound(votes.sum(1), 400, 0.01)
    assert 0 < (exact - betting_lower(votes, 0.01)).mean() < 0.02


def test_bounds_of_a_batch_are_those_of_its_rows_and_mirror_each_other() -> None:
    values = np.random.default_rng(4).random((2, 3, 50))
    lower = betting_lower(values, 0.05)
    assert lower.shape == (2, 3)
    assert lower[1, 2] == betting_lower(values[1, 2], 0.05)
    assert betting_upper(values, 0.05) == pytest.approx(1 - betting_lower(1 - values, 0.05))
    assert np.all(lower < values.mean(-1))


def test_constant_and_few_values() -> None:
    assert betting_lower(np.ones(1_000), 0.01) > 0.99
    assert betting_lower(np.zeros(1_000), 0.01) == 0
    assert betting_lower([0.5], 0.01) == 0


@pytest.mark.parametrize(("values", "alpha"), [([0.5, 1.2], 0.05), ([np.nan], 0.05), ([], 0.05), ([0.5], 0.0)])
def test_what_is_no_score_or_no_level_is_refused(values: list[float], alpha: float) -> None:
    with pytest.raises(UsageError):
        betting_lower(values, alpha)
