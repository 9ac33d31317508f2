"""Axes of a chart: where values begin and end, and which ticks stand between."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Axis", "names_axis", "numbers_axis", "share_axis"]

_TICKS = 6


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high` with ticks (value, label); `turned` runs from top to bottom."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]] = ()
    log: bool = False
    grid: bool = False
    turned: bool = False

    def place(self, value: float) -> float:
        """Where a value stands between the ends, from 0 to 1."""
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        part = (at - low) / (high - low)
        return 1 - part if self.turned else part


def numbers_axis(
    title: str,
    values: Iterable[float],
    *,
    ticks: Sequence[float] = (),
    log: bool = False,
    zero: bool = False,
    percent: bool = False,
    grid: bool = False,
) -> Axis:
    """An axis of numbers around `values`, with round ticks unless told which.

    >>> [label for _, label in numbers_axis("radius", [0, 0.93]).ticks]
    ['0', '0.2', '0.4', '0.6', '0.8']
    """
    finite = [float(value) for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    low = min(low, 0.0) if zero else low
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    places = list(ticks) or _nice(low, high)
    return Axis(title, low, high, [(t, _label(t, percent)) for t in places if low <= t <= high], log, grid)


def share_axis(title: str) -> Axis:
    """An axis from 0 to 100 %, with faint lines across."""
    return Axis(title, 0.0, 1.0, [(tick, f"{tick:.0%}") for tick in (0.0, 0.25, 0.5, 0.75, 1.0)], grid=True)


def names_axis(names: Sequence[str], title: str = "", *, turned: bool = False) -> Axis:
    """An axis with a place for each name: 0, 1, 2, ..."""
    return Axis(title, -0.5, len(names) - 0.5, list(enumerate(names)), turned=turned)


def _nice(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / _TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(step * number, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _label(value: float, percent: bool) -> str:
    if percent:
        return f"{100 * value:g}%"
    # 100,000 and 1e-5 in short
    return f"{value:g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
