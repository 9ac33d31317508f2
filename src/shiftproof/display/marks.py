"""What is drawn in a chart: lines, bands, dots, whiskers, boxes and rules, each a value with the numbers it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Band", "Boxes", "Dots", "Line", "Mark", "Rule", "Style", "Whiskers"]

Step = Literal["", "before", "after"]
"""How a line goes from point to point: straight, or level and upright at the point before or behind."""


@dataclass(frozen=True)
class Style:
    """How a mark looks: `colour` is a place in the palette, or None for the gray of what is beside the point."""

    colour: int | None = 0
    dash: tuple[float, ...] = ()
    shape: str = "circle"
    opacity: float = 1.0
    width: float = 2.0


@dataclass(frozen=True)
class Line:
    """A line through points (x, y). `of` are the keys of the legend that it belongs to, as with every mark."""

    points: Sequence[tuple[float, float]]
    style: Style
    of: tuple[str, ...] = ()
    step: Step = ""


@dataclass(frozen=True)
class Band:
    """The area between two lines: (x, low, high)."""

    ranges: Sequence[tuple[float, float, float]]
    style: Style
    of: tuple[str, ...] = ()
    step: Step = ""


@dataclass(frozen=True)
class Dots:
    """Points (x, y); a hint is what the pointer shows of one. Those that are hidden are there for the pointer alone."""

    points: Sequence[tuple[float, float]]
    style: Style
    of: tuple[str, ...] = ()
    hints: Sequence[str] = ()
    size: float = 4.0
    hidden: bool = False


@dataclass(frozen=True)
class Whiskers:
    """Upright bars from low to high: (x, low, high)."""

    ranges: Sequence[tuple[float, float, float]]
    style: Style
    of: tuple[str, ...] = ()


@dataclass(frozen=True)
class Boxes:
    """Rectangles (left, right, bottom, top); `shades` from 0 to 1 are how strong their colour is."""

    boxes: Sequence[tuple[float, float, float, float]]
    style: Style
    of: tuple[str, ...] = ()
    hints: Sequence[str] = ()
    shades: Sequence[float] = ()
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Rule:
    """A line across the whole panel at one value, upright or level, with a label at its end."""

    at: float
    style: Style
    of: tuple[str, ...] = ()
    upright: bool = False
    label: str = ""


Mark = Line | Band | Dots | Whiskers | Boxes | Rule
