"""Rank correlations of a few pairs of numbers, with p-values by permutation."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln
from scipy.stats import rankdata

from shiftproof.errors import UnknownName, UsageError
from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.types import FloatArray, IntArray

__all__ = ["RankCorrelation", "RankKind", "rank_correlation"]

RankKind = Literal["spearman", "kendall"]
LARGEST_EXACT = 9
"""Up to so many pairs, all orders are tried: 362,880."""
DRAWS = 99_999
"""Orders that are drawn at random where there are more pairs."""
_CHUNK = 50_000
_TIE = 1e-9
"""Correlations closer than this are the same but for rounding."""


@dataclass(frozen=True)
class RankCorrelation:
    """A rank correlation, and how often another order of the same numbers has one at least as far from 0.

    `p_value` is two-sided: exact where all orders were tried (`exact`), else the share of random orders, the given one
    counted among them. `smallest_p` is the least that any order of these numbers could have given: where that is above
    `alpha`, nothing can be decided, whatever the numbers say. Both are 1 where one of the rows is constant.
    """

    kind: RankKind
    value: float
    p_value: float
    n: int
    exact: bool
    smallest_p: float
    alpha: float = 0.05

    @property
    def undecidable(self) -> bool:
        """Whether no order of so few numbers could have been significant."""
        return self.smallest_p > self.alpha

    @property
    def sentence(self) -> str:
        """What may be said of it, with the number of pairs."""
        name = {"spearman": "Spearman's rho", "kendall": "Kendall's tau"}[self.kind]
        how = "exact" if self.exact else "by random orders"
        known = f"{name} {self.value:+.2f}, p = {self.p_value:.2g} ({how}, n = {self.n})"
        if self.undecidable:
            return f"{known}: undecidable with {self.n}, where no order has a p below {self.smallest_p:.2g}"
        return f"{known}: {'related' if self.p_value <= self.alpha else 'not decided'}"


def rank_correlation(
    x: ArrayLike, y: ArrayLike, kind: RankKind = "spearman", *, alpha: float = 0.05, seed: int = 0
) -> RankCorrelation:
    """Spearman's rho, or Kendall's tau-b, of two rows of numbers, with a two-sided p-value by permutation.

    Equal numbers have their mean rank. The p-value holds whatever the numbers' distribution, if the pairs are
    exchangeable under "no relation"; up to nine pairs it is exact. References: Spearman, The proof and measurement of
    association between two things, 1904; Kendall, A new measure of rank correlation, 1938
    (doi 10.1093/biomet/30.1-2.81).

    >>> four = rank_correlation([1, 2, 3, 4], [10, 20, 30, 40])
    >>> four.value, round(four.p_value, 4), four.undecidable
    (1.0, 0.0833, True)
    """
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is {alpha!r}; it should lie strictly between 0 and 1, such as 0.05")
    first, second = _checked(x), _checked(y)
    if kind not in get_args(RankKind):
        raise UnknownName("rank correlation", str(kind), get_args(RankKind))
    if len(first) != len(second) or len(first) < 2:
        raise UsageError(
            f"a rank correlation needs two rows of equal length, at least two each, not {len(first)} and {len(second)}"
        )
    of = _Spearman(first, second) if kind == "spearman" else _Kendall(first, second)
    n, value = len(first), float(of.values(np.arange(len(first))[None])[0])
    if of.scale == 0:
        return RankCorrelation(kind, 0.0, 1.0, n, True, 1.0, alpha)
    exact = n <= LARGEST_EXACT
    every = _all_orders(n) if exact else _random_orders(n, checked_seed(seed))
    found = np.concatenate([np.abs(of.values(orders)) for orders in every])
    at_least = int((found >= abs(value) - _TIE).sum())
    p_value = at_least / len(found) if exact else (1 + at_least) / (1 + len(found))
    smallest = (
        float((found >= found.max() - _TIE).mean()) if exact else _smallest_p(type(of), first, second, len(found))
    )
    return RankCorrelation(kind, value, p_value, n, exact, smallest, alpha)


class _Spearman:
    """Pearson's correlation of mean ranks."""

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        self._x, self._y = (rankdata(one) - (len(one) + 1) / 2 for one in (x, y))
        self.scale = float(np.sqrt((self._x**2).sum() * (self._y**2).sum()))

    def values(self, orders: IntArray) -> FloatArray:
        """For each order (rows) of the second row of numbers."""
        products: FloatArray = self._y[orders] @ self._x
        return products / (self.scale or 1.0)


class _Kendall:
    """Pairs in the same order less pairs in the opposite order, over those that are tied in neither row (tau-b)."""

    def __init__(self, x: FloatArray, y: FloatArray) -> None:
        self._i, self._j = np.triu_indices(len(x), 1)
        self._y, self._signs = y, np.sign(x[self._i] - x[self._j])
        of_y = np.sign(y[self._i] - y[self._j])
        self.scale = float(np.sqrt((self._signs**2).sum() * (of_y**2).sum()))

    def values(self, orders: IntArray) -> FloatArray:
        """For each order (rows) of the second row of numbers."""
        ordered = self._y[orders]
        agreeing: FloatArray = np.sign(ordered[:, self._i] - ordered[:, self._j]) @ self._signs
        return agreeing / (self.scale or 1.0)


def _smallest_p(kind: type[_Spearman | _Kendall], x: FloatArray, y: FloatArray, draws: int) -> float:
    """The least p-value that an order can have: as many orders are the most extreme as ties leave the same.

    The largest correlation is that of both rows sorted. Of all different orders of y, those have it that exchange
    numbers of one block of equal x; the smallest correlation, of rows sorted against each other, may be as far from 0.
    """
    every, orders = _log_arrangements(y), (np.sort(y), np.sort(y)[::-1])
    ways = [sum(map(_log_arrangements, _blocks(x, order))) for order in orders]
    extremes = [abs(float(kind(np.sort(x), order).values(np.arange(len(x))[None])[0])) for order in orders]
    farthest = [way for way, value in zip(ways, extremes, strict=True) if value >= max(extremes) - _TIE]
    return max(sum(float(np.exp(way - every)) for way in farthest), 1 / (1 + draws))


def _blocks(x: FloatArray, y: FloatArray) -> list[FloatArray]:
    """Numbers of y, in their order, that stand beside equal numbers of x, which is sorted."""
    _, counts = np.unique(x, return_counts=True)
    return np.split(y, np.cumsum(counts)[:-1])


def _log_arrangements(values: FloatArray) -> float:
    """log of the number of different orders of a row of numbers."""
    _, counts = np.unique(values, return_counts=True)
    return float(gammaln(len(values) + 1) - gammaln(counts + 1).sum())


def _all_orders(n: int) -> list[IntArray]:
    every = np.array(list(permutations(range(n))), np.int64)
    return np.array_split(every, max(1, len(every) // _CHUNK))


def _random_orders(n: int, seed: int) -> list[IntArray]:
    generator = numpy_generator(seed, "rank correlation", n)
    rows = max(1, _CHUNK // n)
    sizes = [min(rows, DRAWS - start) for start in range(0, DRAWS, rows)]
    return [generator.permuted(np.tile(np.arange(n), (size, 1)), axis=1) for size in sizes]


def _checked(values: ArrayLike) -> FloatArray:
    row = np.asarray(values, np.float64)
    if row.ndim != 1 or not np.isfinite(row).all():
        raise UsageError("a rank correlation needs rows of finite numbers")
    return row
