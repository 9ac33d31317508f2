"""Lower bounds on W1: never above a distance that is known, seldom above one that is estimated."""

import numpy as np
import pytest
from gaussians import gaussians
from scipy.optimize import linprog
from scipy.stats import binom, wasserstein_distance

from shiftproof.errors import DataError, UnknownName, UsageError
from shiftproof.perturbations.norms import DUALS, ORDERS
from shiftproof.theory import Points, lower_distance
from shiftproof.theory.critics_linear import linear_critics
from shiftproof.theory.distances.lower_bound import difference_bound
from shiftproof.theory.points import deal, unit_means
from shiftproof.types import FloatArray

NO_NOISE = np.random.default_rng(0)


def exact_w1(p: FloatArray, q: FloatArray, norm: str) -> float:
    """W1 of two small samples by a linear programme: what transport costs at least."""
    cost = np.linalg.norm(p[:, None] - q[None], ORDERS[norm], axis=2)
    rows, columns = cost.shape
    marginals = [np.kron(np.eye(rows), np.ones(columns)), np.kron(np.ones(rows), np.eye(columns))]
    given = np.concatenate([np.full(rows, 1 / rows), np.full(columns, 1 / columns)])
    return float(linprog(cost.ravel(), A_eq=np.concatenate(marginals), b_eq=given).fun)


def judged(shift: float, numbers: int, *, own_fold: bool, repeats: int = 2_000, count: int = 60) -> FloatArray:
    """Bounds at 90 % for the direction of the difference of means, for many pairs of samples at once."""
    generator = np.random.default_rng(5)
    fold_a, fold_b = generator.standard_normal((2, 2, repeats, count, numbers), np.float32)
    for fold in (fold_a, fold_b):
        fold[1, ..., 0] += shift
    means = fold_a.mean(2)
    gap = means[1] - means[0]
    direction = gap / np.linalg.norm(gap, axis=1, keepdims=True)
    judge = fold_a if own_fold else fold_b
    values = np.einsum("srcn,rn->src", judge - means.mean(0)[None, :, None], direction)
    scores = (np.clip(values, -4, 4) + 4) / 8
    return 8 * difference_bound(scores[0], scores[1], 0.1, "betting")


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_bound_exceeds_the_true_distance_as_seldom_as_it_says(shift: float) -> None:
    assert (judged(shift, 20, own_fold=False) > shift).sum() <= binom.ppf(0.99, 2_000, 0.1)


def test_a_critic_that_is_judged_on_its_own_fold_fails_the_same_test() -> None:
    assert (judged(1.0, 60, own_fold=True) > 1.0).sum() > binom.ppf(0.99, 2_000, 0.1)


@pytest.mark.slow
def test_the_whole_way_from_samples_to_a_bound_is_wrong_as_seldom_as_it_says() -> None:
    generator = np.random.default_rng(6)
    bounds = [
        lower_distance(*gaussians(generator, 80, 20, 0.5), level=0.9, seed=repeat).lower for repeat in range(2_000)
    ]
    assert sum(bound > 0.5 for bound in bounds) <= binom.ppf(0.99, 2_000, 0.1)
    null = [lower_distance(*gaussians(generator, 80, 20, 0.0), level=0.9, seed=k).lower for k in range(2_000)]
    assert sum(bound > 0 for bound in null) <= binom.ppf(0.99, 2_000, 0.1)


def test_critic_of_the_oracle() -> None:
    """W1 of N(0, I) and N(m u, I) is m; the critic <u, x>, clipped, bounds it from below: S4 of the closed forms."""
    generator = np.random.default_rng(0)
    values = np.clip(generator.normal([[[0.0]], [[1.0]]], 1, (2, 2_000, 400)), -4, 4)
    for interval in ("bernstein", "betting"):
        bound = 8 * difference_bound(*((values + 4) / 8), 0.01, interval)  # type: ignore[arg-type]
        assert (bound > 1).sum() <= binom.ppf(0.99, 2_000, 0.01)
        assert bound.mean() > (0.05 if interval == "bernstein" else 0.5)


def test_a_clear_shift_is_seen() -> None:
    far = lower_distance(*gaussians(np.random.default_rng(7), 600, 30, 3.0))
    assert 2.3 < far.lower < far.difference < 3.4
    assert (far.n, far.critic, far.level) == ((300, 300), "linear critic", 0.99)
    assert lower_distance(*gaussians(np.random.default_rng(7), 600, 30, 3.0)).lower == far.lower
    assert lower_distance(*gaussians(np.random.default_rng(7), 600, 30, 3.0), interval="bernstein").lower < far.lower


@pytest.mark.parametrize("norm", ["l2", "l1", "linf"])
def test_no_linear_critic_exceeds_the_exact_distance_of_samples(norm: str) -> None:
    generator = np.random.default_rng(8)
    for scale in (0.0, 0.3, 2.0):
        p = generator.random((13, 5)).astype(np.float32)
        q = (generator.random((9, 5)) + scale * generator.random(5)).astype(np.float32)
        truth = exact_w1(p, q, norm)
        for critic in linear_critics(p, q, norm):
            assert np.linalg.norm(critic.weight, DUALS[norm]) <= 1
            gap = critic.values(q, NO_NOISE).mean() - critic.values(p, NO_NOISE).mean()
            assert gap <= truth + critic.allowance(p) + critic.allowance(q)
        if scale == 2.0:
            best = linear_critics(p, q, norm)
            assert max((c.values(q, NO_NOISE).mean() - c.values(p, NO_NOISE).mean()) for c in best) > 0.8 * truth


def test_in_one_dimension_a_shift_is_all_of_the_distance() -> None:
    p, q = np.random.default_rng(9).random((2, 40, 1)).astype(np.float32)
    truth = wasserstein_distance(p[:, 0], q[:, 0] + 2)
    critic = linear_critics(p, q + 2, "l2")[0]
    assert critic.values(q + 2, NO_NOISE).mean() - critic.values(p, NO_NOISE).mean() == pytest.approx(truth, rel=1e-6)


def test_units_that_both_domains_hold_are_in_the_same_fold() -> None:
    generator = np.random.default_rng(10)
    inputs = generator.random((40, 2)).astype(np.float32)
    p = Points.of("p", inputs[:30], [f"patient {i // 2}" for i in range(30)])
    q = Points.of("q", inputs[20:], [f"patient {i // 2}" for i in range(10, 30)])
    one, other = deal(p, q, 0, "folds")
    for first, second in ((one.reference, other.target), (one.target, other.reference), one, other):
        same = first.units.tolist(), second.units.tolist()
        assert (set(same[0]) & set(same[1]) == set()) == ((first, second) not in ((*one,), (*other,)))
    assert abs(one.reference.count - other.reference.count) <= 2


def test_groups_count_once() -> None:
    p, q = gaussians(np.random.default_rng(11), 40, 4, 5.0)
    copies = np.repeat(q.inputs, 10, axis=0)
    # by the same names, so that the folds are the same; critics are fitted to all copies, so that they differ a little
    bounds = [
        (lower_distance(p, q, seed=i), lower_distance(p, Points("q", copies, np.repeat(q.units, 10)), seed=i))
        for i in range(20)
    ]
    alone, many = bounds[0]
    assert many.n == alone.n
    means = np.mean([[one.lower for one in pair] for pair in bounds], axis=0)
    # ten times as many independent samples would prove far more
    assert 0.8 < means[1] / means[0] < 1.05
    assert np.mean([lower_distance(p, Points.of("q", copies), seed=i).lower for i in range(5)]) > 1.3 * means[0]
    groups = [f"patient {i // 10}" for i in range(len(copies))]
    assert lower_distance(p, Points.of("q", copies, groups)).n == alone.n
    assert unit_means(np.array([1.0, 3.0, 5.0]), np.array(["a", "a", "b"], object), 0).tolist() in ([2, 5], [5, 2])


@pytest.mark.parametrize(("atoms", "n"), [(50, 300), (100, 500)])
def test_equal_inputs_of_two_samples_are_no_unit_of_both(atoms: int, n: int) -> None:
    """One discrete law, twice: folds that knew which side has more of an input would be told apart in most draws."""
    rng, corners = np.random.default_rng(17), np.eye(atoms, dtype=np.float32)
    above = [
        lower_distance(*(Points.of(name, corners[rng.integers(atoms, size=n)]) for name in "pq"), level=0.9).lower > 0
        for _ in range(20)
    ]
    assert sum(above) <= 6


def test_a_part_of_the_reference_is_refused_and_other_inputs_under_the_same_names_are_not() -> None:
    rng, names = np.random.default_rng(19), np.array([f"patient {i}" for i in range(60)], object)
    p = Points("scanner 1", rng.normal(0, 1, (60, 3)).astype(np.float32), names)
    q = Points("scanner 2", p.inputs + np.float32(5), names)
    assert lower_distance(p, q).lower > 0
    with pytest.raises(UsageError, match="the same one twice"):
        lower_distance(p, Points("again", p.inputs[:30], names[:30]))


def test_inputs_that_come_again_count_again() -> None:
    """A law of a few inputs that come again and again: without copies it would be another law, far from itself."""
    rng = np.random.default_rng(13)
    rare = rng.normal(9, 1, (40, 3)).astype(np.float32)
    above = 0
    for _ in range(40):
        sides = [np.where(rng.random((300, 1)) < 0.9, np.float32(0), rare[rng.integers(40, size=300)]) for _ in "pq"]
        one = Points.of("p", sides[0].astype(np.float32))
        assert one.count == 300
        above += lower_distance(one, Points.of("q", sides[1][:200].astype(np.float32)), level=0.9).lower > 0
    assert above <= 9


def refused(p: Points, q: Points, **options: object) -> str:
    with pytest.raises((DataError, UsageError)) as caught:
        lower_distance(p, q, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_what_can_not_be_compared_gets_a_sentence() -> None:
    p, q = gaussians(np.random.default_rng(12), 20, 4, 1.0)
    assert "holds 1 different sample;" in refused(p, Points.of("q", q.inputs[:1]))
    assert "holds 1 different sample (20 with copies" in refused(p, Points.of("q", np.repeat(q.inputs[:1], 20, 0)))
    assert "every sample of 'again' is one of 'p'" in refused(p, Points.of("again", p.inputs[::-1]))
    assert "inputs of 'q' are 3, and those of 'p' 4" in refused(p, Points.of("q", q.inputs[:, :3]))
    assert "not for 'angle'" in refused(p, q, norm="angle")
    assert "the level is 1" in refused(p, q, level=1.0)
    with pytest.raises(UnknownName):
        lower_distance(p, q, interval="normal")  # type: ignore[arg-type]
    spoilt = q.inputs.copy()
    spoilt[3, 2] = np.nan
    with pytest.raises(DataError, match="not numbers"):
        Points.of("q", spoilt)
