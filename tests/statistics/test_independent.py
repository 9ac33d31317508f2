"""The mean of figures with samples of their own: its interval holds the true mean as often as it says."""

import numpy as np
import pytest

from shiftproof.statistics import interval, mean_of_independent
from shiftproof.types import Estimate


def test_one_figure_stays_as_it_is() -> None:
    one = Estimate(0.3, 0.2, 0.5, 10)
    assert mean_of_independent([one]) is one


def test_equal_figures_have_half_the_width_by_four() -> None:
    mean = mean_of_independent([Estimate(0.5, 0.4, 0.7, 10)] * 4)
    assert (mean.value, mean.low, mean.high, mean.n) == pytest.approx((0.5, 0.45, 0.6, 40))


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.05, 0.6, 0.9), (0.3, 0.98, 0.99, 0.02)])
def test_intervals_cover_the_mean_over_targets(shares: tuple[float, ...]) -> None:
    generator = np.random.default_rng(0)
    held, repeats, n = 0, 2_000, 80
    for _ in range(repeats):
        counts = generator.binomial(n, shares)
        each = [interval(int(k), n) for k in counts]
        mean = mean_of_independent(each)
        held += mean.low <= np.mean(shares) <= mean.high
    assert held / repeats >= 0.94
