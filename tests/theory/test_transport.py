"""The worst law within a Wasserstein distance, against a linear programme and closed forms."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from shift_truths import linear_truth

from shiftproof.errors import UsageError
from shiftproof.theory import radius_gap, worst_share

RADII = st.lists(st.sampled_from([0.0, 0.01, 0.2, 0.5, 0.5, 1.0, 3.0, 40.0]), min_size=1, max_size=30)
EPS = st.floats(0, 5)


def by_linear_programme(radii: np.ndarray, eps: float, p: float) -> float:
    """Move a part of every right sample's mass to where it is wrong, at its price, within the budget."""
    right = radii[radii > 0]
    if not len(right):
        return 0.0
    each = 1 / len(radii)
    found = linprog(-np.ones(len(right)), A_ub=[right**p], b_ub=[eps**p], bounds=[(0, each)] * len(right))
    return len(right) * each + float(found.fun)


@settings(deadline=None, max_examples=150)
@given(radii=RADII, eps=EPS, p=st.sampled_from([1.0, 2.0, 3.0]))
def test_the_knapsack_is_the_linear_programme(radii: list[float], eps: float, p: float) -> None:
    found = float(worst_share(radii, eps, p))
    assert found == pytest.approx(by_linear_programme(np.array(radii), eps, p), abs=1e-7)


@settings(deadline=None, max_examples=150)
@given(radii=RADII, one=EPS, other=EPS)
def test_curves_fall_and_are_ordered(radii: list[float], one: float, other: float) -> None:
    near, far = sorted((one, other))
    values = np.array(radii)
    for p in (1.0, 2.0, 8.0, math.inf):
        assert worst_share(values, far, p) <= worst_share(values, near, p) + 1e-12
        assert worst_share(values, 0.0, p) == pytest.approx((values > 0).mean())
    by_order = [float(worst_share(values, near, p)) for p in (1.0, 2.0, 8.0, 64.0, math.inf)]
    assert all(a <= b + 1e-9 for a, b in pairwise(by_order))
    # strictly: a radius that equals eps does not count
    assert by_order[-1] == pytest.approx((values > near).mean())


def test_linear_classifier() -> None:
    margins = np.random.default_rng(0).normal(0.8, 0.9, 400_000)
    eps = np.array([0.0, 0.05, 0.1, 0.25, 0.5, 0.8])
    truth = [linear_truth(0.8, 0.9, one) for one in eps]
    assert np.abs(worst_share(np.maximum(margins, 0), eps) - truth).max() < 3e-3


def test_the_w1_curve_ends_at_the_mean_radius() -> None:
    radii = np.maximum(np.random.default_rng(1).normal(0.5, 0.6, 4_000), 0)
    assert worst_share(radii, radii.mean() * (1 + 1e-9)) < 1e-9 < worst_share(radii, 0.98 * radii.mean())


def test_labels_do_not_move() -> None:
    radii = np.r_[np.ones(900), np.zeros(100)]
    assert worst_share(radii, 0.1) == pytest.approx(0.8)


def test_what_never_flips_stays() -> None:
    assert worst_share([math.inf, math.inf, 1.0, 0.0], [0.0, 0.25, 9.0]).tolist() == pytest.approx([0.75, 0.5, 0.5])
    assert worst_share([math.inf, 0.0], 3.0, 2) == 0.5


def test_weights_are_those_of_the_samples() -> None:
    doubled = worst_share([0.2, 0.2, 1.0, 0.0], [0.01, 0.1, 0.3])
    assert worst_share([0.2, 1.0, 0.0], [0.01, 0.1, 0.3], weights=[0.5, 0.25, 0.25]) == pytest.approx(doubled)


@pytest.mark.parametrize(
    ("radii", "eps", "p", "words"),
    [
        ([], 0.1, 1, "at least one"),
        ([-1.0], 0.1, 1, "at least 0"),
        ([math.nan], 0.1, 1, "at least 0"),
        ([1.0], -0.1, 1, "distances"),
        ([1.0], math.inf, 1, "distances"),
        ([1.0], 0.1, 0.5, "order"),
        ([1.0], 0.1, "1", "order"),
    ],
)
def test_bad_input(radii: list[float], eps: float, p: float, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        worst_share(radii, eps, p)


@given(RADII, RADII)
def test_parts_of_a_radius_gap_add_up(one: list[float], other: list[float]) -> None:
    found = radius_gap(one, other)
    assert found.lost == pytest.approx(np.mean(one) - np.mean(other), abs=1e-12)
    assert found.by_accuracy + found.by_radius == pytest.approx(found.lost, abs=1e-12)
    if (np.array(one) > 0).mean() == (np.array(other) > 0).mean():
        assert found.by_accuracy == pytest.approx(0)


def test_powers_that_underflow_promise_nothing() -> None:
    assert worst_share([1e-4, 1.0], 2e-4, 100) == 0.5
    assert worst_share([1e-4, 1.0], 2e-4, 1_000) <= 0.5
