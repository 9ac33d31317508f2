"""Rank correlations: against scipy, and by enumeration that shares no code with ours."""

from itertools import permutations

import numpy as np
import pytest
import scipy.stats

from shiftproof.errors import UsageError
from shiftproof.statistics import rank_correlation
from shiftproof.statistics.rank_correlation import RankKind, _Kendall, _smallest_p, _Spearman

THEIRS = {"spearman": scipy.stats.spearmanr, "kendall": scipy.stats.kendalltau}


@pytest.mark.parametrize("kind", ["spearman", "kendall"])
@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("tied", [False, True])
def test_value_and_p_value_by_enumeration(kind: RankKind, n: int, tied: bool) -> None:
    generator = np.random.default_rng(n)
    x = generator.normal(size=n)
    y = generator.integers(0, 3, n).astype(float) if tied else generator.normal(size=n)
    y[0] += 5
    found = rank_correlation(x, y, kind)
    value = float(THEIRS[kind](x, y).statistic)
    every = [abs(float(THEIRS[kind](x, order).statistic)) for order in permutations(y)]
    assert found.value == pytest.approx(value)
    assert found.p_value == pytest.approx(np.mean([one >= abs(value) - 1e-9 for one in every]))
    assert found.smallest_p == pytest.approx(np.mean([one >= max(every) - 1e-9 for one in every]))
    assert found.exact


def test_kendalls_p_value_without_ties_is_scipys() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 8))
    assert rank_correlation(x, y, "kendall").p_value == pytest.approx(
        scipy.stats.kendalltau(x, y, method="exact").pvalue
    )


def test_many_pairs_are_drawn_at_random() -> None:
    x, y = np.random.default_rng(1).normal(size=(2, 40))
    found = rank_correlation(x, x + 2 * y)
    assert not found.exact
    assert found.p_value == pytest.approx(scipy.stats.spearmanr(x, x + 2 * y).pvalue, abs=0.01)
    assert found == rank_correlation(x, x + 2 * y)


def test_four_targets_decide_nothing() -> None:
    found = rank_correlation([1, 2, 3, 4], [1, 2, 3, 4])
    assert found.p_value == pytest.approx(2 / 24)
    assert found.undecidable
    assert "undecidable with 4" in found.sentence
    assert not rank_correlation([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]).undecidable


def test_what_is_constant_says_nothing() -> None:
    found = rank_correlation([1, 2, 3], [5, 5, 5])
    assert (found.value, found.p_value, found.undecidable) == (0.0, 1.0, True)


def test_p_values_are_uniform_where_nothing_is_related() -> None:
    generator = np.random.default_rng(0)
    found = np.array([rank_correlation(*generator.normal(size=(2, 7))).p_value for _ in range(400)])
    assert (found <= 0.05).mean() <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)
    assert 0.4 < found.mean() < 0.6


@pytest.mark.parametrize(("x", "y"), [([1], [2]), ([1, 2], [1, 2, 3]), ([1, np.nan], [1, 2]), ([[1, 2]], [1, 2])])
def test_bad_rows_are_refused(x: object, y: object) -> None:
    with pytest.raises(UsageError):
        rank_correlation(x, y)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="spearman"):
        rank_correlation([1, 2, 3], [1, 2, 3], "pearson")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["spearman", "kendall"])
def test_ties_limit_how_small_a_p_value_can_be_beyond_nine_pairs(kind: str) -> None:
    # one of twelve differs in either row: an order in twelve brings them together
    both = rank_correlation([1] * 11 + [2], [1] * 11 + [2], kind)
    assert both.smallest_p == pytest.approx(1 / 12)
    assert both.undecidable
    assert rank_correlation([1] * 11 + [2], range(12), kind).smallest_p == pytest.approx(2 / 12)
    assert rank_correlation(range(12), range(12), kind).smallest_p == pytest.approx(1e-5)


@pytest.mark.parametrize("kind", ["spearman", "kendall"])
def test_the_smallest_p_value_by_counting_is_that_of_all_orders(kind: str) -> None:
    of, generator = {"spearman": _Spearman, "kendall": _Kendall}[kind], np.random.default_rng(0)
    for _ in range(60):
        x, y = generator.integers(0, 4, (2, int(generator.integers(3, 8)))).astype(float)
        if np.ptp(x) and np.ptp(y):
            assert rank_correlation(x, y, kind).smallest_p == pytest.approx(_smallest_p(of, x, y, 10**9))


@pytest.mark.parametrize("alpha", [0, 1, -1, 2, float("nan")])
def test_alpha_is_a_probability(alpha: float) -> None:
    with pytest.raises(UsageError, match="alpha"):
        rank_correlation([1, 2, 3], [1, 2, 3], alpha=alpha)
