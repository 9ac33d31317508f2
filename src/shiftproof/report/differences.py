"""The difference of two figures that were measured on the same samples, with an interval of any level.

Of several runs, which leave out another domain each, it is the mean of their differences. Their trainings are
independent, and their samples are not: a domain that one run leaves out is a source of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shiftproof.errors import UsageError
from shiftproof.report.estimates import OverDomains, Values
from shiftproof.statistics import mean_of_independent, over_seeds, resample_difference, resample_weighted
from shiftproof.types import Estimate

__all__ = ["Interval", "OneRun", "difference", "mean_difference", "mean_over_runs"]

Interval = Callable[[float], Estimate]
"""Makes the interval of a level, such as 0.95."""


@dataclass(frozen=True, eq=False)
class OneRun:
    """What one of several runs has of a difference: both sides, `that` perhaps a number that is known.

    `apart`, `this_most` and `that_most` are those of `difference`.
    """

    this: Values | OverDomains
    that: Values | OverDomains | float = 0.0
    apart: bool = False
    this_most: Values | OverDomains | None = None
    that_most: Values | OverDomains | None = None


def mean_difference(runs: Sequence[OneRun], limits: tuple[float, float], *, shares: bool, seed: int = 0) -> Interval:
    """The mean over runs of this less that, each run weighing the same.

    Samples, or groups of them, that several runs measured are drawn together; trainings of each run are its own, and
    their t intervals are added in squares.

    Args:
        runs: Of one model or pair of models, each run with another domain left out.
        limits: The least and the greatest value that there can be.
        shares: Whether values are parts of 1, so that no difference exceeds the limits.
        seed: Of the bootstrap.
    """
    first = runs[0]
    if len(runs) == 1 and not isinstance(first.that, float):
        most = {"this_most": first.this_most, "that_most": first.that_most}
        return difference(first.this, first.that, limits, shares=shares, apart=first.apart, seed=seed, **most)
    usual = _mean_interval(runs, limits, shares, seed)
    if all(one.this_most is None and one.that_most is None for one in runs):
        return usual
    least = [replace(one, that=one.that if one.that_most is None else one.that_most) for one in runs]
    most_of = [replace(one, this=one.this if one.this_most is None else one.this_most) for one in runs]
    low, high = (_mean_interval(some, limits, shares, seed) for some in (least, most_of))
    return lambda level: replace(usual(level), low=low(level).low, high=high(level).high)


def mean_over_runs(values: Sequence[Values | OverDomains], limits: tuple[float, float] | None) -> Estimate:
    """The mean over runs of a figure, with its 95 % interval."""
    reach = limits or (0.0, max(one.greatest for one in values))
    return mean_difference([OneRun(one) for one in values], reach, shares=limits is not None)(0.95)


def _mean_interval(runs: Sequence[OneRun], limits: tuple[float, float], shares: bool, seed: int) -> Interval:
    samples, weights, numbers = [], list[float](), list[float]()
    for one in runs:
        for side, sign in ((one.this, 1.0), (one.that, -1.0)):
            if isinstance(side, float):
                numbers.append(side)
                continue
            samples += side.samples
            weights += [sign / (len(runs) * len(side.samples))] * len(side.samples)
    number = float(np.sum(numbers)) / len(runs)
    drawn = resample_weighted(samples, np.array(weights), seed, limits).less(number)
    least, greatest = (limits[0] - limits[1], limits[1] - limits[0]) if not numbers else _less(limits, number)

    def interval(level: float) -> Estimate:
        found, each = drawn.at(level), [_seeds_alone(one, level) for one in runs]
        seeds = mean_of_independent(each)
        low = found.value - float(np.hypot(found.value - found.low, seeds.value - seeds.low))
        high = found.value + float(np.hypot(found.high - found.value, seeds.high - seeds.value))
        low, high = (max(low, least), min(high, greatest)) if shares else (low, high)
        return replace(found, low=low, high=high, method=f"{found.method}{each[0].method}")

    return interval


def _less(limits: tuple[float, float], number: float) -> tuple[float, float]:
    return limits[0] - number, limits[1] - number


def _seeds_alone(run: OneRun, level: float) -> Estimate:
    """An interval around 0 that counts how much the trainings of a run differ, and nothing else."""
    nothing = Estimate(0.0, 0.0, 0.0, 0, level)
    this = run.this.per_seed
    if isinstance(run.that, float):
        return over_seeds(nothing, this.tolist())
    if run.apart:
        return over_seeds(nothing, this.tolist(), less=run.that.per_seed.tolist())
    if len(run.this.by_seed) != len(run.that.by_seed):
        raise UsageError("two measurements of one model were not made with the same seeds")
    return over_seeds(nothing, (this - run.that.per_seed).tolist())


def difference(
    this: Values | OverDomains,
    that: Values | OverDomains,
    limits: tuple[float, float],
    *,
    shares: bool,
    apart: bool,
    seed: int = 0,
    this_most: Values | OverDomains | None = None,
    that_most: Values | OverDomains | None = None,
) -> Interval:
    """This less that: the mean over samples and seeds of each, and over domains where a side has several.

    Samples, or groups of them, are drawn together where both sides measured the same. Trainings of two models are
    independent; two measurements of one model share theirs, so that the differences of every seed are what varies.

    Args:
        limits: The least and the greatest value that there can be.
        shares: Whether values are parts of 1, so that no difference exceeds the limits.
        apart: Whether the two sides are of models that were trained on their own.
        seed: Of the bootstrap.
        this_most: What this side can be at most, where its values are lower bounds because votes stopped early. The
            interval then reaches from where this side is as certified and the other at its most, to the reverse.
        that_most: The same of the other side.
    """
    usual = _interval(this, that, limits, shares, apart, seed)
    if this_most is None and that_most is None:
        return usual
    least = _interval(this, that if that_most is None else that_most, limits, shares, apart, seed)
    most = _interval(this if this_most is None else this_most, that, limits, shares, apart, seed)
    return lambda level: replace(usual(level), low=least(level).low, high=most(level).high)


def _interval(
    this: Values | OverDomains,
    that: Values | OverDomains,
    limits: tuple[float, float],
    shares: bool,
    apart: bool,
    seed: int,
) -> Interval:
    both = resample_difference(this.samples, that.samples, seed, limits=limits)
    # shares differ by no more than all
    reach = (limits[0] - limits[1], limits[1] - limits[0]) if shares else None
    if apart:
        return lambda level: over_seeds(both.at(level), this.per_seed.tolist(), reach, less=that.per_seed.tolist())
    if len(this.by_seed) != len(that.by_seed):
        raise UsageError("two measurements of one model were not made with the same seeds")
    return lambda level: over_seeds(both.at(level), (this.per_seed - that.per_seed).tolist(), reach)
