"""Two samples of features whose laws are compared, and what an estimate from them may be off by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.errors import DataError, UsageError
from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.theory.points import Points, check_points, set_apart
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
        sides = list(set_apart(*sides))
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


def mixture(
    parts: Sequence[Points], weights: Sequence[float] | None = None, seed: int = 0, *, most: int | None = None
) -> Points:
    """A sample of several domains as one: each sample comes from a domain with the probability that `weights` say.

    Equal weights unless told. How many come from each is drawn, and which, without replacement: the rows are
    independent draws of the mixture, as many as the smallest supply allows. Where samples come in groups, groups are
    drawn, and each gives the same number of samples, that of the smallest: a domain with larger groups has no larger
    share. A group that several domains hold is drawn from one of them alone. The order of the domains does not matter.
    `most` limits the number of groups, or of samples where there are none.
    """
    shares = np.full(len(parts), 1 / max(1, len(parts))) if weights is None else np.asarray(weights, np.float64)
    if not parts or len(shares) != len(parts) or not np.isfinite(shares).all() or (shares <= 0).any():
        told = shares.tolist() if weights is None else list(weights)
        raise UsageError(f"a mixture of {len(parts)} domains needs as many finite weights above 0, not {told}")
    name = " + ".join(points.name for points in parts)
    if len(parts) == 1:
        return parts[0]
    places = sorted(range(len(parts)), key=lambda place: parts[place].name)
    ordered, shares = [parts[place] for place in places], (shares / shares.sum())[places]
    generator = numpy_generator(checked_seed(seed), "mixture of domains", *(points.name for points in ordered))
    units = [_own_units(points) for points in ordered]
    each = min(int(np.unique(some, return_counts=True)[1].min()) for some in units)
    taken = _draw_units(units, shares, generator, most)
    rows = [_some_rows(some, drawn, each, generator) for some, drawn in zip(units, taken, strict=True)]
    chosen = [points.subset(some) for points, some in zip(ordered, rows, strict=True)]
    return Points(name, np.concatenate([one.inputs for one in chosen]), np.concatenate([one.units for one in chosen]))


def _own_units(points: Points) -> NDArray[np.str_]:
    """Units as text; inputs that are units by their content are none of another domain's."""
    return np.array([f"{points.name}: {unit}" if " copy " in str(unit) else str(unit) for unit in points.units])


def _draw_units(
    units: Sequence[NDArray[np.str_]], shares: FloatArray, generator: np.random.Generator, most: int | None
) -> list[list[str]]:
    """Units of each domain, one draw after the other, until the domain whose turn it is has none left."""
    waiting = [iter(generator.permutation(np.unique(some)).tolist()) for some in units]
    taken: list[list[str]] = [[] for _ in units]
    used: set[str] = set()
    for place in generator.choice(len(units), size=sum(map(len, units)), p=shares)[:most].tolist():
        unit = next((one for one in waiting[place] if one not in used), None)
        if unit is None:
            break
        used.add(unit)
        taken[place].append(unit)
    return taken


def _some_rows(units: NDArray[np.str_], drawn: Sequence[str], each: int, generator: np.random.Generator) -> IntArray:
    """Rows of the drawn units, so many of each, at random."""
    order = generator.permutation(len(units))
    order = order[np.isin(units[order], drawn)]
    order = order[np.argsort(units[order], kind="stable")]
    _, starts, counts = np.unique(units[order], return_index=True, return_counts=True)
    return np.sort(order[np.arange(len(order)) - np.repeat(starts, counts) < each])


def _dealt(units: IntArray, blocks: int) -> Iterator[IntArray]:
    order = numpy_generator(0, "jackknife", len(units)).permutation(units)
    yield from (part for part in np.array_split(order, min(blocks, len(order))) if len(part) < len(units))


def _points(side: Side, name: str) -> Points:
    if isinstance(side, Points):
        return side
    try:
        values = np.asarray(side, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"features of the {name} should be an array N x D of numbers, not {side!r}") from error
    if values.ndim < 2:
        raise UsageError(f"features of the {name} should be an array N x D, not of shape {values.shape}")
    # in all their digits: what is computed here is in float64
    return Points.of(name, values)  # type: ignore[arg-type]
