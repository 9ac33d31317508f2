"""Wasserstein distances of two samples of features: sliced, and exact."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.theory.distances.pair import FEW_BLOCKS, DomainDistance, Pair, Side, standard_error
from shiftproof.types import FloatArray

__all__ = ["exact_wasserstein", "line_wasserstein", "sliced_wasserstein"]

DIRECTIONS = 256
"""Directions on which samples are projected; the same for all domains of one number of features."""


def sliced_wasserstein(reference: Side, target: Side, *, order: int = 1) -> DomainDistance:
    """The Wasserstein distance of both samples projected on a random direction, averaged over directions.

    (mean over directions of W_p^p)^(1/p), with `order` p of 1 or 2. For D features it is about the root of D times
    smaller than the distance itself, and has no curse of dimension: its error falls with the root of n. Reference:
    Bonneel et al., Sliced and Radon Wasserstein barycenters of measures, 2015 (doi 10.1007/s10851-014-0506-3).

    >>> x = np.random.default_rng(0).normal(0, 1, (400, 1))
    >>> round(sliced_wasserstein(x, x + 0.5).value, 3)  # on a line, a shift is the distance
    0.5
    """
    _check_order(order)
    pair = Pair.of(reference, target)
    features = pair.x.shape[1]
    directions = numpy_generator(0, "sliced wasserstein", features).standard_normal((features, DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    # projected once: what is left out changes rows alone
    flat = Pair(pair.x @ directions, pair.y @ directions, pair.units_x, pair.units_y)

    def statistic(part: Pair) -> float:
        return float(line_wasserstein(part.x, part.y, order).mean() ** (1 / order))

    value = statistic(flat)
    each = line_wasserstein(flat.x, flat.y, order)
    slope = value ** (1 - order) / order if value > 0 else 0.0
    by_direction = slope * float(each.std(ddof=1)) / np.sqrt(DIRECTIONS) if features > 1 else 0.0
    error = float(np.hypot(standard_error(flat, statistic), by_direction))
    return DomainDistance.estimate("sliced-wasserstein", value, pair, error)


def exact_wasserstein(reference: Side, target: Side, *, order: int = 1) -> DomainDistance:
    """The Wasserstein distance of the two samples, by an optimal transport plan (Euclidean; extra `transport`).

    Exact for the samples, and too large for what they were drawn from, by an amount that falls as slowly as n^(-1/D):
    compare only distances of the same n, and look at the distance between two halves of one domain. Reference: Flamary
    et al., POT: Python optimal transport, 2021 (jmlr.org/papers/v22/20-451.html).
    """
    _check_order(order)
    transport = _transport()
    pair = Pair.of(reference, target)

    def statistic(part: Pair) -> float:
        cost = cdist(part.x, part.y) ** order
        plan = transport.emd2(_uniform(part.x), _uniform(part.y), cost, numItermax=10_000_000)
        return float(max(0.0, float(plan)) ** (1 / order))

    value = statistic(pair)
    return DomainDistance.estimate("wasserstein", value, pair, standard_error(pair, statistic, FEW_BLOCKS))


def line_wasserstein(x: FloatArray, y: FloatArray, order: int = 1) -> FloatArray:
    """W_p^p of two samples on a line, for each column of x (n x L) and y (m x L): their quantiles, compared.

    >>> line_wasserstein(np.array([[0.0], [1.0]]), np.array([[0.0], [0.0], [3.0]])).round(4).tolist()
    [0.8333]
    """
    x, y = np.sort(x, axis=0), np.sort(y, axis=0)
    n, m = len(x), len(y)
    # both quantile functions are constant between these levels, in units of 1 / (n m)
    levels = np.union1d(np.arange(n + 1) * m, np.arange(m + 1) * n)
    start, width = levels[:-1], np.diff(levels) / (n * m)
    moved: FloatArray = np.abs(x[start // m] - y[start // n]) ** order
    return width @ moved


def _uniform(values: FloatArray) -> FloatArray:
    return np.full(len(values), 1 / len(values))


def _check_order(order: int) -> None:
    if order not in (1, 2):
        raise UsageError(f"the order of a Wasserstein distance is {order!r} here; it should be 1 or 2")


def _transport() -> Any:
    try:
        return importlib.import_module("ot")
    except ImportError as error:
        raise UsageError(
            "the exact Wasserstein distance needs a package: pip install 'shiftproof[transport]' "
            "(sliced-wasserstein needs none)"
        ) from error
