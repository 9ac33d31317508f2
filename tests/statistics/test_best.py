"""Which of several alternatives is best: shares of wins against what can be computed by hand."""

import numpy as np
import pytest
from scipy.stats import norm

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.statistics import covering_range, win_shares
from shiftproof.statistics.units import Units

UNITS = Units.of(np.arange(400))


def wins(*values: np.ndarray, units: Units = UNITS) -> np.ndarray:
    return win_shares(values, units, numpy_generator(0, "test"), resamples=4_000)


def test_what_is_better_on_every_sample_always_wins() -> None:
    right = (np.arange(400) % 4 > 0).astype(float)[None]
    assert wins(right, right * (np.arange(400) % 7 > 0)).tolist() == [1, 0]


def test_equals_share_a_win() -> None:
    right = (np.arange(400) % 4 > 0).astype(float)[None]
    assert wins(right, right, right).tolist() == pytest.approx([1 / 3] * 3)


def test_samples_are_drawn_together_and_wins_are_those_of_a_paired_difference() -> None:
    """One is right on 20 samples that the other is wrong on, and wrong on 10: in samples, their difference has the mean
    10 and the variance 30 less 10 squared over 400.
    """
    one, other = np.ones((1, 400)), np.ones((1, 400))
    other[:, :20], one[:, 20:30] = 0, 0
    due = norm.cdf(10 / np.sqrt(30 - 100 / 400))
    assert wins(one, other)[0] == pytest.approx(due, abs=0.02)


def test_trainings_that_differ_are_drawn_too_and_one_training_is_not() -> None:
    """All samples agree, so that nothing varies but trainings: means .55 +- .1 against .5, each of two trainings."""
    spread = np.array([[0.45], [0.65]]) * np.ones((2, 400))
    certain, flat = np.full((1, 400), 0.55), np.full((2, 400), 0.5)
    assert wins(certain, flat).tolist() == [1, 0]
    # of two trainings the same one is drawn twice in a quarter of draws, and .55 - sqrt(2) .1 is less than .5
    assert wins(spread, flat)[0] == pytest.approx(0.75, abs=0.03)


def test_groups_are_drawn_whole() -> None:
    """Of two groups, one is drawn twice in half of draws: then what is right on it alone has all, or nothing."""
    groups = Units.of(["a"] * 200 + ["b"] * 200)
    first = np.repeat([1.0, 0.0], 200)[None]
    assert wins(first, np.full((1, 400), 0.4), units=groups)[0] == pytest.approx(0.75, abs=0.03)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="a number for each sample"):
        wins(np.ones((1, 3)))
    with pytest.raises(UsageError, match="a number for each sample"):
        wins(np.ones(400))


@pytest.mark.parametrize(
    ("shares", "level", "due"),
    [
        ([1.0, 0, 0], 0.95, (0, 0)),
        ([0.02, 0.96, 0.02], 0.95, (1, 1)),
        ([0.03, 0.94, 0.03], 0.95, (0, 2)),
        ([0.5, 0, 0.5], 0.95, (0, 2)),
        ([0.2, 0.6, 0.2], 0.5, (1, 1)),
    ],
)
def test_a_range_that_covers(shares: list[float], level: float, due: tuple[int, int]) -> None:
    assert covering_range(shares, level) == due
