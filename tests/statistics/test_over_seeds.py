"""Intervals over seeds and samples, by coverage: models differ from seed to seed, samples differ in difficulty."""

import numpy as np
import pytest
from scipy.special import expit

from shiftproof.errors import UsageError
from shiftproof.statistics import Sample, bootstrap_difference, bootstrap_mean, over_seeds
from shiftproof.types import Estimate

REPEATS = 300


def accuracies(
    generator: np.random.Generator, seeds: int, samples: int, groups: int | None, spread: float, shift: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Whether each sample is right under each seed (seeds x samples), and the unit of each sample.

    A sample is right with a probability that depends on the model's skill, on the difficulty of the sample, and on that
    of its group.
    """
    skill = 1.0 - shift + spread * generator.standard_normal((seeds, 1))
    units = np.arange(samples) if groups is None else np.arange(samples) % groups
    shared = generator.standard_normal(units.max() + 1)[units]
    own = 0.0 if groups is None else generator.standard_normal(samples)
    return generator.random((seeds, samples)) < expit(skill + shared + own), units.astype(str).astype(object)


def truth(groups: int | None, spread: float, shift: float = 0.0) -> float:
    """The mean over all seeds and samples, by a large draw."""
    generator = np.random.default_rng(10)
    deviation = np.sqrt(1 + spread**2 + (groups is not None))
    return float(expit(1.0 - shift + deviation * generator.standard_normal(4_000_000)).mean())


@pytest.mark.parametrize(("seeds", "spread"), [(2, 0.5), (3, 0.5), (3, 0.0), (5, 0.2), (10, 0.5)])
@pytest.mark.parametrize("groups", [None, 20])
def test_intervals_cover_the_mean_over_seeds_and_samples(seeds: int, spread: float, groups: int | None) -> None:
    generator, due = np.random.default_rng(0), truth(groups, spread)
    covered = 0
    for _ in range(REPEATS):
        right, units = accuracies(generator, seeds, 200, groups, spread)
        within = bootstrap_mean(Sample(right.mean(0), units), limits=(0, 1), resamples=300)
        found = over_seeds(within, right.mean(1).tolist(), limits=(0, 1))
        covered += found.low <= due <= found.high
    # 95 % less what 300 repetitions may miss by chance (three standard errors)
    assert covered / REPEATS >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / REPEATS)


def test_drawing_three_seeds_anew_does_not_cover() -> None:
    """The control: a bootstrap over both levels, which the docstring says is too sure of itself."""
    generator, due, covered = np.random.default_rng(0), truth(None, 0.5), 0
    for _ in range(REPEATS):
        right, _ = accuracies(generator, 3, 200, None, 0.5)
        draws = [right[generator.integers(0, 3, 3)][:, generator.integers(0, 200, 200)].mean() for _ in range(200)]
        low, high = np.quantile(draws, [0.025, 0.975])
        covered += low <= due <= high
    assert covered / REPEATS < 0.9


def test_differences_between_domains_are_covered_too() -> None:
    generator, due = np.random.default_rng(0), truth(None, 0.5) - truth(None, 0.5, 0.8)
    covered = 0
    for _ in range(REPEATS):
        (here, units), (there, others) = (accuracies(generator, 3, 150, None, 0.5, shift) for shift in (0.0, 0.8))
        one, other = Sample(here.mean(0), units), Sample(there.mean(0), np.char.add("t", others.astype(str)))
        within = bootstrap_difference([one], [other], limits=(0, 1), resamples=300)
        found = over_seeds(within, (here.mean(1) - there.mean(1)).tolist())
        covered += found.low <= due <= found.high
    assert covered / REPEATS >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / REPEATS)


def test_one_seed_changes_nothing_and_none_is_refused() -> None:
    estimate = Estimate(0.5, 0.4, 0.6, 100)
    assert over_seeds(estimate, [0.5]) == estimate
    with pytest.raises(UsageError, match="at least one"):
        over_seeds(estimate, [])


def test_shares_stay_shares() -> None:
    found = over_seeds(Estimate(0.95, 0.9, 0.99, 100), [0.9, 1.0], limits=(0, 1))
    assert (found.low, found.high) == (pytest.approx(0.31, abs=0.01), 1.0)
