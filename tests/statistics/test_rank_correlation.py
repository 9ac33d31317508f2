"""Rank correlations: against scipy, and by enumeration that shares no code with ours."""

from itertools import permutations

import numpy as np
import pytest
import scipy.stats

from shiftproof.errors import UsageError
from shiftproof.statistics import rank_correlation
from shiftproof.statistics.rank_correlation import RankKind

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
