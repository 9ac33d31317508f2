"""Distances between domains: against closed forms, others' code, brute force, and over many repetitions."""

import math

import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import kstest, norm, wasserstein_distance

from shiftproof.errors import DataError, UsageError
from shiftproof.theory import (
    exact_wasserstein,
    extrapolated_frechet_distance,
    frechet_distance,
    kernel_distance,
    mixture,
    proxy_a_distance,
    same_law_test,
    sliced_wasserstein,
    total_variation_bound,
)
from shiftproof.theory.distances.kernel import _kernel
from shiftproof.theory.distances.measures import MEASURES, measure_distance
from shiftproof.theory.points import Points
from shiftproof.types import FloatArray


def normal(seed: int, n: int, mean: object = 0.0, scale: object = 1.0, features: int = 3) -> FloatArray:
    generator = np.random.default_rng(seed)
    return np.asarray(mean) + np.asarray(scale) * generator.standard_normal((n, features))


# Frechet


def test_frechet_distance_of_two_normal_laws_in_closed_form() -> None:
    # O17: 1 for the means, 1 and 1 for the standard deviations
    first = normal(0, 20_000, [0, 1], [1, 2], 2)
    second = normal(1, 20_000, [1, 1], [2, 1], 2)
    found = frechet_distance(first, second)
    assert found.value == pytest.approx(3.0, abs=0.1)
    assert found.standard_error is not None
    assert abs(found.value - 3.0) < 4 * found.standard_error


@pytest.mark.parametrize(("n", "m", "features"), [(60, 80, 5), (12, 15, 40), (12, 90, 40)])
def test_frechet_distance_equals_the_matrix_root(n: int, m: int, features: int) -> None:
    x, y = normal(0, n, 0, 1, features), normal(1, m, 0.3, 2, features)
    covariances = [np.cov(np.float32(one).astype(float), rowvar=False) for one in (x, y)]
    root = np.real(sqrtm(covariances[0] @ covariances[1]))
    expected = ((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root)
    assert frechet_distance(x, y).value == pytest.approx(expected, rel=1e-3)


def test_extrapolation_takes_away_the_excess_of_few_samples() -> None:
    pairs = [(normal(2 * i, 200, 0, 1, 16), normal(2 * i + 1, 200, 0, 1, 16)) for i in range(20)]
    plain = np.mean([frechet_distance(x, y).value for x, y in pairs])
    better = np.mean([extrapolated_frechet_distance(x, y).value for x, y in pairs])
    assert plain > 0.5
    assert abs(better) < plain / 4


# kernel


def brute_force(x: FloatArray, y: FloatArray) -> float:
    """The textbook's three sums."""

    def k(u: FloatArray, v: FloatArray) -> float:
        return float((u @ v / len(u) + 1) ** 3)

    n, m = len(x), len(y)
    within = sum(k(x[i], x[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    other = sum(k(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    return within + other - 2 * sum(k(a, b) for a in x for b in y) / (n * m)


def test_kernel_distance_is_the_textbooks() -> None:
    x, y = normal(0, 17), normal(1, 23, 0.5)
    assert kernel_distance(x, y).value == pytest.approx(brute_force(x, y), rel=1e-9)


@pytest.mark.parametrize("mean", [0.0, 0.6])
def test_kernel_distance_is_unbiased(mean: float) -> None:
    values = np.array([kernel_distance(normal(2 * i, 12), normal(2 * i + 1, 15, mean)).value for i in range(2_000)])
    big_x, big_y = normal(10**6, 4_000), normal(10**6 + 1, 4_000, mean)
    truth = _kernel(big_x, big_x).mean() + _kernel(big_y, big_y).mean() - 2 * _kernel(big_x, big_y).mean()
    # the truth is of 4,000 samples itself
    slack = 4 * values.std() / math.sqrt(len(values)) + 0.02
    assert abs(values.mean() - (truth if mean else 0.0)) < slack
    assert (values < 0).any()


def test_kernel_distance_of_groups_leaves_out_pairs_of_one_group() -> None:
    # twenty patients of ten nearly equal samples: as 200 samples they look far apart, as 20 groups they do not
    values = []
    for i in range(200):
        sides = []
        for side in (0, 1):
            centres = normal(1_000 + 2 * i + side, 20)
            rows = centres.repeat(10, 0) + 0.01 * normal(side, 200)
            units = np.array([f"{side} {g}" for g in range(20) for _ in range(10)], object)
            sides.append(Points("ab"[side], rows.astype(np.float32), units))
        values.append(kernel_distance(*sides).value)
    spread = np.std(values) / math.sqrt(len(values))
    assert abs(np.mean(values)) < 4 * spread


def test_intervals_of_the_kernel_distance_hold() -> None:
    big_x, big_y = normal(10**6, 4_000), normal(10**6 + 1, 4_000, 1.0)
    truth = kernel_distance(big_x, big_y).value
    inside = 0
    for i in range(200):
        found = kernel_distance(normal(2 * i, 100), normal(2 * i + 1, 100, 1.0))
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= truth <= found.high
    assert inside >= 180


# permutation test


@pytest.mark.parametrize("kind", ["samples", "groups", "shared"])
def test_p_values_are_uniform_under_one_law(kind: str) -> None:
    found = []
    for i in range(300):
        x, y = normal(2 * i, 24), normal(2 * i + 1, 24)
        if kind == "groups":
            x, y = x[:8].repeat(3, 0), y[:8].repeat(3, 0)
        if kind == "shared":
            # the same thing measured twice: the second time with a little noise of its own, and so was the first
            centre = normal(5_000 + i, 24)
            x, y = centre + 0.3 * x, centre + 0.3 * y
        units = [str(r // 3) if kind == "groups" else str(r) for r in range(24)]
        names = [[f"{side if kind != 'shared' else ''} {unit}" for unit in units] for side in "xy"]
        sides = [
            Points(n, v.astype(np.float32), np.array(u, object)) for n, v, u in zip("xy", (x, y), names, strict=True)
        ]
        if kind == "shared":
            # one sample more on a side, so that it is not the same sample twice
            extra = normal(9_000 + i, 1)
            more = np.array([*names[1], "y alone"], object)
            sides[1] = Points("y", np.concatenate([y, extra]).astype(np.float32), more)
        found.append(same_law_test(*sides, orders=99, seed=i).value)
    values = np.array(found)
    # p-values are multiples of 1 / 100
    assert kstest(values - np.random.default_rng(0).random(len(values)) / 100, "uniform").pvalue > 0.001
    assert (values <= 0.05).mean() < 0.05 + 4 * math.sqrt(0.05 * 0.95 / len(values))


def test_other_laws_are_told_apart() -> None:
    assert same_law_test(normal(0, 100), normal(1, 100, 0.7)).value == 0.001


@pytest.mark.parametrize(("atoms", "features"), [(16, 1), (100, 3)])
def test_ties_between_two_samples_of_one_law_change_nothing(atoms: int, features: int) -> None:
    """Equal values of two independent samples are no unit that both hold."""
    law, p_values, distances, bounds = normal(3, atoms, features=features), [], [], []
    for i in range(60):
        generator = np.random.default_rng(100 + i)
        x, y = (law[generator.integers(atoms, size=100)] for _ in "xy")
        p_values.append(same_law_test(x, y, orders=99, seed=i).value)
        distances.append(kernel_distance(x, y).value)
        bounds.append(total_variation_bound(x, y, level=0.9, seed=i).value > 0)
    assert np.mean(np.array(p_values) <= 0.05) <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 60)
    assert abs(np.mean(distances)) < 4 * np.std(distances) / math.sqrt(60)
    assert np.mean(bounds) <= 0.1 + 4 * math.sqrt(0.1 * 0.9 / 60)


def test_extrapolation_does_not_depend_on_names() -> None:
    """Names that alternate between two kinds of samples, sorted as they are: every second one would be of one kind."""
    kinds = normal(0, 400, features=2) + np.where(np.arange(400)[:, None] % 2, 8.0, -8.0)
    x = Points("x", kinds.astype(np.float32), np.array([f"x {i:04}" for i in range(400)], object))
    order = np.random.default_rng(1).permutation(400)
    y = normal(2, 400, features=2) + np.where(np.arange(400)[:, None] % 2, 8.0, -8.0)
    other = Points("y", y[order].astype(np.float32), np.array([f"y {i:04}" for i in range(400)], object))
    found = extrapolated_frechet_distance(x, other)
    assert found.standard_error is not None
    assert abs(found.value) < 4 * found.standard_error + 0.05
    assert found.standard_error < 1
    with pytest.raises(UsageError, match="can't be extrapolated"):
        extrapolated_frechet_distance(normal(0, 30, features=40), normal(1, 30, features=40))


# Wasserstein


def test_sliced_distance_on_a_line_is_scipys() -> None:
    x, y = normal(0, 40, features=1), normal(1, 55, 0.7, 2, 1)
    expected = wasserstein_distance(np.float32(x)[:, 0], np.float32(y)[:, 0])
    assert sliced_wasserstein(x, y).value == pytest.approx(expected, rel=1e-5)


def test_exact_distance_is_that_of_an_assignment() -> None:
    pytest.importorskip("ot", reason="POT is not installed: pip install 'shiftproof[transport]'")
    x, y = normal(0, 60), normal(1, 60, 0.5)
    for order in (1, 2):
        cost = cdist(np.float32(x), np.float32(y)) ** order
        expected = cost[linear_sum_assignment(cost)].mean() ** (1 / order)
        found = exact_wasserstein(x, y, order=order)
        assert found.value == pytest.approx(expected, rel=1e-6)
        # on no line do samples lie farther apart
        assert sliced_wasserstein(x, y, order=order).value <= found.value


def test_sliced_and_exact_agree_with_pot() -> None:
    ot = pytest.importorskip("ot", reason="POT is not installed: pip install 'shiftproof[transport]'")
    x, y = np.float32(normal(0, 50)).astype(float), np.float32(normal(1, 70, 0.5)).astype(float)
    found = sliced_wasserstein(x, y, order=2)
    theirs = ot.sliced_wasserstein_distance(x, y, n_projections=20_000, p=2, seed=0)
    assert found.standard_error is not None
    assert abs(found.value - theirs) < 4 * found.standard_error
    assert exact_wasserstein(x, y).value == pytest.approx(ot.emd2([], [], cdist(x, y)), rel=1e-6)


# domain classifiers


def test_a_distance_runs_from_guessing_to_never_wrong() -> None:
    assert proxy_a_distance(normal(0, 300), normal(1, 300)).value < 0.35
    assert proxy_a_distance(normal(0, 300), normal(1, 300, 9.0)).value == 2.0
    # a shift of 2 standard deviations: the best error is Phi(-1), whatever the sizes
    found = proxy_a_distance(normal(0, 2_000, features=1), normal(1, 500, 2.0, features=1))
    assert found.standard_error is not None
    assert abs(found.value - (2 - 4 * norm.cdf(-1))) < 4 * found.standard_error


def test_total_variation_is_bounded_from_below() -> None:
    # TV of two normal laws whose means are d apart: 2 Phi(d / 2) - 1
    truth = 2 * norm.cdf(0.5) - 1
    found = [
        total_variation_bound(normal(2 * i, 200, features=1), normal(2 * i + 1, 200, 1.0, features=1), level=0.9).value
        for i in range(300)
    ]
    assert np.mean(np.array(found) > truth) <= 0.1
    assert np.mean(found) > 0.05
    same = [total_variation_bound(normal(2 * i, 60), normal(2 * i + 1, 60), level=0.9).value for i in range(200)]
    assert np.mean(np.array(same) > 0) <= 0.1


# all


@pytest.mark.parametrize("name", ["frechet", "kernel", "sliced-wasserstein", "a-distance"])
def test_standard_errors_are_those_of_repetitions(name: str) -> None:
    found = [
        measure_distance(
            name,
            Points.of("a", normal(2 * i, 150).astype(np.float32)),
            Points.of("b", normal(2 * i + 1, 150, 0.8).astype(np.float32)),
        )
        for i in range(80)
    ]
    told = np.mean([one.standard_error for one in found])
    assert 0.75 < told / np.std([one.value for one in found]) < 1.4


@pytest.mark.parametrize("name", list(MEASURES))
def test_every_measure_says_what_is_wrong_with_its_input(name: str) -> None:
    if name == "wasserstein":
        pytest.importorskip("ot", reason="POT is not installed: pip install 'shiftproof[transport]'")
    good = Points.of("good", normal(0, 30).astype(np.float32))
    with pytest.raises(DataError, match="needs at least 8"):
        measure_distance(name, good, Points.of("one", normal(1, 1).astype(np.float32)))
    with pytest.raises(DataError, match="inputs of 'wide' are 5"):
        measure_distance(name, good, Points.of("wide", normal(1, 30, features=5).astype(np.float32)))
    with pytest.raises(DataError, match="not numbers"):
        measure_distance(name, good, Points.of("bad", np.full((30, 3), np.nan, np.float32)))
    constant = Points("flat", np.ones((30, 3), np.float32), np.array([f"flat {i}" for i in range(30)], object))
    if name != "w1-bound":
        with pytest.raises(DataError, match="same features"):
            measure_distance(name, good, constant)


def test_measures_do_not_depend_on_the_order_of_samples() -> None:
    x, y = (Points.of(name, normal(i, 40).astype(np.float32)) for i, name in enumerate("ab"))
    order = np.random.default_rng(0).permutation(40)
    for name in ("frechet", "kernel", "sliced-wasserstein"):
        shuffled = measure_distance(name, x.subset(order), y)
        assert shuffled.value == pytest.approx(measure_distance(name, x, y).value, rel=1e-9)


def test_a_mixture_has_the_shares_that_were_asked_for() -> None:
    parts = [Points.of(name, normal(i, 3_000).astype(np.float32) + 10 * i) for i, name in enumerate("abc")]
    mixed = mixture(parts, [2, 1, 1])
    share = np.mean(mixed.inputs.mean(1) < 5)
    assert mixed.name == "a + b + c"
    assert abs(share - 0.5) < 4 * math.sqrt(0.25 / len(mixed))
    assert len(mixed) > 5_000
    assert len(np.unique(mixed.inputs, axis=0)) == len(mixed)
    with pytest.raises(UsageError, match="as many finite weights above 0"):
        mixture(parts, [1, 0, 1])


def test_a_group_that_two_sources_hold_is_drawn_from_one() -> None:
    """A and B hold the same patients; B has the target's law, A lies apart: with weights 3 and 1, TV is 3/4."""
    names = np.array([f"patient {i}" for i in range(600)], object)
    a, b = (Points(name, (normal(i, 600) + 20 * (1 - i)).astype(np.float32), names) for i, name in enumerate("ab"))
    target = Points.of("c", normal(7, 600).astype(np.float32))
    mixed = mixture([a, b], [3, 1])
    assert len(set(mixed.units.tolist())) == len(mixed)
    share = float(np.mean(mixed.inputs.mean(1) > 10))
    assert abs(share - 0.75) < 4 * math.sqrt(0.75 * 0.25 / len(mixed))
    assert total_variation_bound(mixed, target).value < 0.75
    distance = proxy_a_distance(mixed, target)
    assert distance.standard_error is not None
    assert distance.value < 1.5 + 4 * distance.standard_error


def test_large_groups_have_no_larger_share_of_a_mixture() -> None:
    groups = np.array([f"a {i // 20}" for i in range(2_000)], object)
    a = Points("a", (normal(0, 2_000) + 20).astype(np.float32), groups)
    b = Points.of("b", normal(1, 100).astype(np.float32))
    mixed = mixture([a, b])
    assert abs(float(np.mean(mixed.inputs.mean(1) > 10)) - 0.5) < 4 * math.sqrt(0.25 / len(mixed))
    assert len(mixture([a, b], most=40)) == 40


def test_the_order_of_sources_does_not_matter() -> None:
    a, b = (Points.of(name, normal(i, 200).astype(np.float32)) for i, name in enumerate("ab"))
    one, other = mixture([a, b], [2, 1]), mixture([b, a], [1, 2])
    assert sorted(one.inputs[:, 0].tolist()) == sorted(other.inputs[:, 0].tolist())


def test_arrays_keep_all_their_digits() -> None:
    x, y = normal(0, 200) * 0.05 + 1e5, normal(1, 200, 0.1) * 0.05 + 1e5
    shifted = frechet_distance(x - 1e5, y - 1e5).value
    assert frechet_distance(x, y).value == pytest.approx(shifted, rel=1e-6)
    with pytest.raises(UsageError, match="of numbers"):
        kernel_distance("abc", x)


def test_measures_that_there_are_not_are_named() -> None:
    with pytest.raises(UsageError, match="kernel"):
        measure_distance("kernal", *(Points.of("a", normal(i, 20).astype(np.float32)) for i in (0, 1)))
