"""The kernel distance of two domains (KID), without bias, and a permutation test for "same law"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from shiftproof.errors import UsageError
from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.theory.distances.pair import DomainDistance, Pair, Side
from shiftproof.types import FloatArray, IntArray

__all__ = ["kernel_distance", "same_law_test"]

ORDERS = 999
"""Random orders of a permutation test, unless told: its smallest p-value is 0.001."""


def kernel_distance(reference: Side, target: Side) -> DomainDistance:
    """The squared maximum mean discrepancy with the kernel (u.v / D + 1)^3, without bias: it can be below 0.

    The mean of the kernel over pairs of x, plus that over pairs of y, less twice that over pairs of both; pairs of one
    unit are left out everywhere. The standard error is the jackknife's; where both laws are the same it is too wide or
    too narrow, and `same_law_test` is the question to ask. Reference: Binkowski et al., Demystifying MMD GANs, 2018
    (arXiv 1801.01401).

    >>> generator = np.random.default_rng(0)
    >>> found = kernel_distance(generator.normal(0, 1, (500, 4)), generator.normal(1, 1, (500, 4)))
    >>> found.value > 4 * found.standard_error
    True
    """
    pair = Pair.of(reference, target)
    value, without, strata = _without_each_unit(pair)
    return DomainDistance.estimate("kernel", value, pair, _jackknife_error(without, strata), least=-np.inf)


def same_law_test(reference: Side, target: Side, *, orders: int = ORDERS, seed: int = 0) -> DomainDistance:
    """The p-value of "both samples come from one law", by permuting which sample a unit belongs to.

    The statistic is the kernel distance. Under that hypothesis the p-value is at most a with probability at most a,
    whatever the law and the sizes. Groups move as a whole, so that of grouped samples the hypothesis is that whole
    groups come from one law, their sizes included; a unit that both domains hold swaps sides. Reference: Gretton et
    al., A kernel two-sample test, 2012 (jmlr.org/papers/v13/gretton12a.html).
    """
    if isinstance(orders, bool) or not isinstance(orders, int) or orders < 1:
        raise UsageError(f"a permutation test needs a whole number of orders, at least one, not {orders!r}")
    pair = Pair.of(reference, target)
    kernel = _kernel(np.concatenate([pair.x, pair.y]), np.concatenate([pair.x, pair.y]))
    sides = _permuted_sides(pair, orders, checked_seed(seed))
    found = _discrepancies(kernel, np.concatenate([pair.units_x, pair.units_y]), sides)
    p_value = float((found >= found[0] - 1e-12 * abs(found[0])).mean())
    return DomainDistance("same-law", p_value, pair.n, note=f"p-value by {orders:,} random orders")


def _kernel(u: FloatArray, v: FloatArray) -> FloatArray:
    products: FloatArray = (u @ v.T / u.shape[1] + 1) ** 3
    return products


def _without_each_unit(pair: Pair) -> tuple[float, FloatArray, list[NDArray[np.bool_]]]:
    """The kernel distance, what it is without each unit, and which units are of x alone, of y alone and of both."""
    codes, places = np.unique(np.concatenate([pair.units_x, pair.units_y]), return_inverse=True)
    sides = [(pair.x, places[: len(pair.x)]), (pair.y, places[len(pair.x) :])]
    members = [csr_array((np.ones(len(at)), (at, np.arange(len(at)))), (len(codes), len(at))) for _, at in sides]
    counts = [np.bincount(at, minlength=len(codes)).astype(np.float64) for _, at in sides]
    whole, without = 0.0, np.zeros(len(codes))
    for i, j, sign in ((0, 0, 1.0), (1, 1, 1.0), (0, 1, -2.0)):
        sums = np.asarray(members[i] @ (members[j] @ _kernel(sides[j][0], sides[i][0])).T)
        pairs = np.outer(counts[i], counts[j])
        for table in (sums, pairs):
            # pairs of one unit are no independent draws
            np.fill_diagonal(table, 0.0)
        whole += sign * float(sums.sum() / pairs.sum())
        lost, lost_pairs = (table.sum(0) + table.sum(1) for table in (sums, pairs))
        without += sign * (sums.sum() - lost) / np.maximum(pairs.sum() - lost_pairs, 1)
    in_x, in_y = (count > 0 for count in counts)
    return whole, without, [in_x & ~in_y, in_y & ~in_x, in_x & in_y]


def _jackknife_error(without: FloatArray, strata: Sequence[NDArray[np.bool_]]) -> float:
    """Units of x alone, of y alone and of both vary independently."""
    parts = [without[stratum] for stratum in strata if stratum.sum() > 1]
    return float(np.sqrt(sum((len(part) - 1) * float(part.var()) for part in parts)))


def _permuted_sides(pair: Pair, orders: int, seed: int) -> FloatArray:
    """Whether each row is of the first sample (1 or 0), as it is and in random orders: (1 + orders) x rows."""
    generator = numpy_generator(seed, "same-law test", *pair.n)
    codes, side = np.concatenate([pair.units_x, pair.units_y]), np.repeat([1.0, 0.0], [len(pair.x), len(pair.y)])
    shared = np.intersect1d(pair.units_x, pair.units_y)
    alone = np.setdiff1d(codes, shared)
    of_x = np.isin(alone, pair.units_x).astype(np.float64)
    place = np.searchsorted(alone, codes)
    is_shared = np.isin(codes, shared)
    pair_place = np.searchsorted(shared, codes)
    sides = np.empty((1 + orders, len(codes)))
    sides[0] = side
    for row in sides[1:]:
        moved = generator.permutation(of_x)
        swapped = generator.integers(0, 2, max(1, len(shared))).astype(bool)
        row[~is_shared] = moved[place[~is_shared]]
        turned = swapped[pair_place[is_shared]]
        row[is_shared] = np.where(turned, 1 - side[is_shared], side[is_shared])
    return sides


def _discrepancies(kernel: FloatArray, codes: IntArray, sides: FloatArray) -> FloatArray:
    """The kernel distance for each way (rows of `sides`) to tell the samples apart."""
    # pairs of one unit are left out
    _, places = np.unique(codes, return_inverse=True)
    other = (places[:, None] != places[None]).astype(np.float64)
    kernel = kernel * other
    x, y = sides, 1 - sides

    def mean(u: FloatArray, v: FloatArray) -> FloatArray:
        sums, pairs = (np.einsum("ij,ij->i", u @ table, v) for table in (kernel, other))
        return np.asarray(sums / np.maximum(pairs, 1))

    found: FloatArray = mean(x, x) + mean(y, y) - 2 * mean(x, y)
    return found
