"""Two samples of features whose laws are compared, and what an estimate from them may be off by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import DataError, UsageError
from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.theory.points import Points, check_points
from shiftproof.types import FloatArray, IntArray

__all__ = ["FEW_BLOCKS", "DomainDistance", "Pair", "Side", "mixture", "standard_error"]

Side = Points | ArrayLike
"""Features of a domain: `Points`, or an array N x D whose rows are independent samples."""
BLOCKS, FEW_BLOCKS = 10, 5
"""Parts of either domain that are left out in turn, and of a statistic that takes long."""
_REACH = 1.959964
"""Standard errors to either side of a 95 % interval."""


@dataclass(frozen=True)
class DomainDistance:
    """How far apart two domains are by one measure, from `n` units (samples, or groups of them) of either.

    `standard_error` is how much the estimate would vary with other samples, `low` and `high` its 95 % interval; both
    are None where the value is a bound or a p-value. What is `proven` holds with probability `level`.
    """

    measure: str
    value: float
    n: tuple[int, int]
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None
    proven: bool = False
    level: float | None = None
    note: str = ""

    @classmethod
    def estimate(
        cls, measure: str, value: float, pair: Pair, error: float, *, least: float = 0.0, most: float = np.inf
    ) -> DomainDistance:
        """An estimate with its normal interval, inside what the measure can be."""
        low, high = max(least, value - _REACH * error), min(most, value + _REACH * error)
        return cls(measure, value, pair.n, error, min(low, value), max(high, value))


@dataclass(frozen=True, eq=False)
class Pair:
    """Features x (n x D) and y (m x D) in float64, and the unit of each row as a number that both share."""

    x: FloatArray
    y: FloatArray
    units_x: IntArray
    units_y: IntArray

    @classmethod
    def of(cls, reference: Side, target: Side) -> Pair:
        """Two domains; refused with a sentence if they are too few, constant or of other features."""
        sides = [_points(side, name) for side, name in ((reference, "reference"), (target, "target"))]
        check_points(*sides)
        x, y = (points.inputs.reshape(len(points), -1).astype(np.float64) for points in sides)
        for points, values in zip(sides, (x, y), strict=True):
            if not np.ptp(values, axis=0).any():
                raise DataError(
                    f"all {len(values)} samples of {points.name!r} have the same features: a distance needs some that "
                    "differ; check the data and the extractor"
                )
        _, codes = np.unique(np.concatenate([points.units.astype(str) for points in sides]), return_inverse=True)
        return cls(x, y, codes[: len(x)], codes[len(x) :])

    @property
    def n(self) -> tuple[int, int]:
        """Units of either side."""
        return len(np.unique(self.units_x)), len(np.unique(self.units_y))

    def without(self, units: IntArray) -> Pair:
        """The same without some units, on both sides."""
        kept_x, kept_y = ~np.isin(self.units_x, units), ~np.isin(self.units_y, units)
        return Pair(self.x[kept_x], self.y[kept_y], self.units_x[kept_x], self.units_y[kept_y])

    def strata(self) -> list[IntArray]:
        """Units of x alone, of y alone, and of both; those that there are."""
        shared = np.intersect1d(self.units_x, self.units_y)
        parts = (np.setdiff1d(self.units_x, shared), np.setdiff1d(self.units_y, shared), shared)
        return [part for part in parts if len(part)]


def standard_error(pair: Pair, statistic: Callable[[Pair], float], blocks: int = BLOCKS) -> float:
    """The delete-a-group jackknife's standard error of a statistic of both samples.

    Units that both sides hold (the same digit at two angles) are left out of both at once. Reference: Shao and Wu, A
    general theory for jackknife variance estimation, 1989 (doi 10.1214/aos/1176347263).
    """
    variance = 0.0
    for units in pair.strata():
        values = np.array([statistic(pair.without(some)) for some in _dealt(units, blocks)])
        if len(values) > 1:
            variance += (len(values) - 1) / len(values) * float(((values - values.mean()) ** 2).sum())
    return float(np.sqrt(variance))


def mixture(parts: Sequence[Points], weights: Sequence[float] | None = None, seed: int = 0) -> Points:
    """A sample of several domains as one: each sample comes from a domain with the probability that `weights` say.

    Equal weights unless told. How many come from each is drawn, and which, without replacement: the rows are
    independent draws of the mixture, as many as the smallest supply allows. Where samples come in groups, the groups of
    each domain are drawn.
    """
    shares = np.full(len(parts), 1 / max(1, len(parts))) if weights is None else np.asarray(weights, np.float64)
    if not parts or len(shares) != len(parts) or not np.isfinite(shares).all() or (shares <= 0).any():
        raise UsageError(f"a mixture of {len(parts)} domains needs as many weights above 0, not {shares.tolist()}")
    shares = shares / shares.sum()
    name = " + ".join(points.name for points in parts)
    if len(parts) == 1:
        return parts[0]
    generator = numpy_generator(checked_seed(seed), "mixture of domains", name)
    orders = [generator.permutation(np.unique(points.units.astype(str))) for points in parts]
    drawn = generator.choice(len(parts), size=sum(map(len, orders)), p=shares)
    # as far as no domain has run out
    used = np.stack([np.cumsum(drawn == place) for place in range(len(parts))])
    enough = (used <= np.array([len(order) for order in orders])[:, None]).all(0)
    last = len(drawn) if enough.all() else int(np.argmin(enough))
    counts = np.bincount(drawn[:last], minlength=len(parts))
    rows = [
        np.flatnonzero(np.isin(points.units.astype(str), order[:count]))
        for points, order, count in zip(parts, orders, counts, strict=True)
    ]
    chosen = [points.subset(some) for points, some in zip(parts, rows, strict=True)]
    return Points(name, np.concatenate([one.inputs for one in chosen]), np.concatenate([one.units for one in chosen]))


def _dealt(units: IntArray, blocks: int) -> Iterator[IntArray]:
    order = numpy_generator(0, "jackknife", len(units)).permutation(units)
    yield from (part for part in np.array_split(order, min(blocks, len(order))) if len(part) < len(units))


def _points(side: Side, name: str) -> Points:
    if isinstance(side, Points):
        return side
    values = np.asarray(side, np.float32)
    if values.ndim < 2:
        raise UsageError(f"features of the {name} should be an array N x D, not of shape {values.shape}")
    return Points.of(name, values)
