"""Numbers of a guarantee as text: never more than is guaranteed."""

from __future__ import annotations

import math

__all__ = ["level_text", "percent_down", "rounded_down"]


def percent_down(share: float, digits: int = 0) -> str:
    """A share in percent, rounded down.

    >>> percent_down(0.7959), percent_down(0.7959, 1), percent_down(0.95), percent_down(0.975, 1)
    ('79%', '79.5%', '95%', '97.5%')
    """
    # a share such as 0.29 is a hair below its 29 percent in binary
    whole = math.floor(share * 100 * 10**digits + 1e-9) / 10**digits
    return f"{whole:.{digits}f}%"


def level_text(confidence: float) -> str:
    """The probability of a statement, rounded down, with a digit behind the point where there is one.

    >>> level_text(0.95), level_text(0.9834)
    ('95%', '98.3%')
    """
    return percent_down(confidence, 1).replace(".0%", "%")


def rounded_down(value: float) -> str:
    """A bound with three digits, never more than it is.

    >>> rounded_down(36.58), rounded_down(0.90999), rounded_down(0.0)
    ('36.5', '0.909', '0')
    """
    if value <= 0:
        return "0"
    if math.isinf(value):
        return "infinity"
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / step * (1 + 1e-12)) * step:.3g}"
