"""The difference of two figures that were measured on the same samples, with an interval of any level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shiftproof.errors import UsageError
from shiftproof.report.estimates import OverDomains, Values
from shiftproof.statistics import over_seeds, resample_difference
from shiftproof.types import Estimate

__all__ = ["Interval", "difference"]

Interval = Callable[[float], Estimate]
"""Makes the interval of a level, such as 0.95."""


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
