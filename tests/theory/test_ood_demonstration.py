"""The low-dimensional case: its parts by brute force, and the bound against the truth."""

import numpy as np
import pytest

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.theory.ood.demonstration import BandProblem, demonstrate_bound

PROBLEM = BandProblem(dimensions=2, r=0.1, slope=0.25, loss_bound=1.0)


def moved(x: np.ndarray, radius: float) -> np.ndarray:
    """Losses of samples under a grid of perturbations (moves x N), the labels kept."""
    axis = np.linspace(-radius, radius, 21)
    moves = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 1, 2)
    labels = PROBLEM.labels(x)
    return np.stack([PROBLEM.loss(x + move, labels) for move in moves])


def test_labels_are_constant_within_twice_the_radius() -> None:
    x = PROBLEM.draw(2000, numpy_generator(0, "draw"))
    assert ((x >= 0) & (x <= 1)).all()
    for side in (-1, 1):
        shifted = x + np.array([side * 2 * PROBLEM.r * 0.999999, 0.0])
        assert (PROBLEM.labels(shifted) == PROBLEM.labels(x)).all()
    assert PROBLEM.labels(x).mean() == pytest.approx(0, abs=0.1)


def test_robustness_by_brute_force() -> None:
    x = PROBLEM.draw(300, numpy_generator(1, "draw"))
    here = PROBLEM.loss(x, PROBLEM.labels(x))
    brute = np.abs(moved(x, 0.2) - here).max(0)
    assert PROBLEM.robustness(x, 0.2) == pytest.approx(brute, abs=1e-12)
    # the clip is active for some, not for all: neither formula reduces to slope times radius
    assert 0 < (brute < 0.25 * 0.2 - 1e-9).mean() < 1


def test_truth_by_monte_carlo() -> None:
    x = PROBLEM.draw(20_000, numpy_generator(2, "draw"))
    values = moved(x, PROBLEM.r).max(0)
    assert PROBLEM.worst_risk() == pytest.approx(values.mean(), abs=4 * values.std() / np.sqrt(len(x)))


@pytest.mark.parametrize(("dimensions", "r", "n"), [(1, 0.1, 1000), (2, 0.1, 10_000), (2, 0.2, 2000), (3, 0.2, 10_000)])
def test_bound_holds_and_says_something(dimensions: int, r: float, n: int) -> None:
    result = demonstrate_bound(dimensions, r, n, draws=200)
    assert result.held >= 1 - result.theta
    assert not result.example.vacuous
    assert (result.bounds < 1).all()
    # the truth is not zero: a tenth of the bound would not hold
    assert (result.errors > 0.1 * result.bounds).mean() > 0.5
    assert result.mean_error < result.mean_bound
    assert result.document_value < result.mean_bound


def test_figures_of_the_documentation() -> None:
    result = demonstrate_bound()
    measured = (result.worst_risk, result.mean_eps, result.mean_error, result.mean_bound, result.document_value)
    assert measured == pytest.approx((0.0812, 0.0494, 0.0244, 0.1697, 0.1362), abs=2e-4)
    assert result.held == 1.0


def test_held_counts_draws() -> None:
    """With a handful of samples the mean loss differs from draw to draw, and so does what is compared."""
    result = demonstrate_bound(1, 0.1, 30, draws=100)
    assert result.held == (result.errors <= result.bounds).mean()
    assert result.bounds.shape == result.errors.shape == (100,)
    assert len(np.unique(result.errors)) > 90


def test_loss_bound_is_a_unit() -> None:
    one, three = (demonstrate_bound(draws=5, loss_bound=most) for most in (1.0, 3.0))
    assert three.bounds == pytest.approx(3 * one.bounds)
    assert three.errors == pytest.approx(3 * one.errors)


def test_refused_arguments() -> None:
    with pytest.raises(UsageError, match="dimensions is 5; give at most 4"):
        demonstrate_bound(5)
    with pytest.raises(UsageError, match=r"r is 0.25; it should be below 0.25"):
        demonstrate_bound(r=0.25)
    with pytest.raises(UsageError, match="draws is 0"):
        demonstrate_bound(draws=0)
    with pytest.raises(UsageError, match="seed is -1"):
        demonstrate_bound(seed=-1)
