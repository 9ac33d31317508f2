"""P-values that agree with intervals, Holm's correction, and intervals of two models that were trained apart."""

import numpy as np
import pytest
from scipy.stats import norm

from shiftproof.errors import UsageError
from shiftproof.statistics import (
    Sample,
    bootstrap_difference,
    bootstrap_mean,
    holm,
    over_seeds,
    p_value,
    resample_difference,
    resample_mean,
)
from shiftproof.types import Estimate


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # the example of R's p.adjust(method = "holm")
        ([0.5], [0.5]),
        ([0.6, 0.6], [1.0, 1.0]),
        ([0.02, 0.02, 0.9], [0.06, 0.06, 0.9]),
        ([], []),
    ],
)
def test_holm_by_hand(p: list[float], adjusted: list[float]) -> None:
    assert holm(p).tolist() == pytest.approx(adjusted)


def test_holm_keeps_its_level_whatever_the_dependence() -> None:
    """Null hypotheses that are independent, and that all rest on one draw, beside two that are false."""
    generator, wrong = np.random.default_rng(0), {"apart": 0, "together": 0}
    for _ in range(2000):
        false = generator.random(2) * 1e-4
        for name, true in (("apart", generator.random(5)), ("together", np.full(5, generator.random()))):
            wrong[name] += bool((holm([*false, *true])[2:] <= 0.05).any())
    assert all(count / 2000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2000) for count in wrong.values())


def test_what_is_no_p_value_is_refused() -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        holm([0.1, 1.5])


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_a_p_value_says_at_which_level_the_interval_decides(level: float) -> None:
    generator = np.random.default_rng(1)
    sample = Sample(generator.random(300), np.arange(300).astype(object))
    drawn = resample_mean(sample)
    bound = drawn.at(level).low
    assert p_value(drawn.at, lambda one: one.low > bound - 1e-9) == pytest.approx(1 - level, rel=0.05)
    assert p_value(drawn.at, lambda one: one.low > 2) == 1.0


def test_levels_are_read_from_one_bootstrap() -> None:
    generator = np.random.default_rng(2)
    units = np.arange(100).astype(object)
    one, other = (Sample(generator.random(100) < share, units) for share in (0.8, 0.5))
    drawn = resample_difference([one], [other], limits=(0, 1))
    for level in (0.8, 0.95, 0.98):
        assert drawn.at(level) == bootstrap_difference([one], [other], limits=(0, 1), level=level)
    assert resample_mean(one).at(0.9) == bootstrap_mean(one, level=0.9)
    assert drawn.less(0.1).at(0.95).low == pytest.approx(drawn.at(0.95).low - 0.1)


def test_far_tails_are_those_of_a_normal_distribution() -> None:
    generator = np.random.default_rng(3)
    sample = Sample(generator.standard_normal(2000), np.arange(2000).astype(object))
    drawn, error = resample_mean(sample), float(sample.values.std() / np.sqrt(2000))
    widths = [drawn.at(level).high - drawn.value for level in (0.99, 0.999, 0.9999, 0.999999)]
    due = [norm.ppf((1 + level) / 2) * error for level in (0.99, 0.999, 0.9999, 0.999999)]
    assert widths == pytest.approx(due, rel=0.1)
    assert sorted(widths) == widths


@pytest.mark.parametrize(("seeds", "others"), [(3, 3), (3, 10), (5, 5)])
@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.0])
def test_two_models_that_were_trained_apart_are_covered(seeds: int, others: int, ratio: float) -> None:
    generator, covered = np.random.default_rng(4), 0
    for _ in range(1000):
        one, other = generator.standard_normal(seeds), ratio * generator.standard_normal(others)
        value = float(one.mean() - other.mean())
        found = over_seeds(Estimate(value, value, value, 100), one.tolist(), less=other.tolist())
        covered += found.low <= 0 <= found.high
    assert covered / 1000 >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 1000)


def test_the_method_counts_the_seeds_of_both() -> None:
    estimate = Estimate(0.1, 0.0, 0.2, 100, method="paired bootstrap")
    assert over_seeds(estimate, [0.5, 0.6, 0.7], less=[0.4, 0.5]).method == "paired bootstrap; 3 and 2 seeds"
    # a model with one training adds nothing that is known
    assert over_seeds(estimate, [0.5], less=[0.4]) == estimate
