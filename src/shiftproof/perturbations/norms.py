"""The norms l2, linf and l1, and what follows from one: written once for attacks, certificates and their tests."""

from __future__ import annotations

import math
from typing import Literal

__all__ = ["BETWEEN_TWO", "DUALS", "ORDERS", "Norm", "norm_of_ones"]

Norm = Literal["l2", "linf", "l1"]

ORDERS: dict[str, float] = {"l2": 2.0, "linf": math.inf, "l1": 1.0}
"""p of the norm (sum of |x|^p)^(1/p)."""
DUALS: dict[str, float] = {"l2": 2.0, "linf": 1.0, "l1": math.inf}
"""q with 1/p + 1/q = 1: a linear function w.x changes by at most the q-norm of w when x moves by 1."""
BETWEEN_TWO: dict[str, float] = {"l2": math.sqrt(2.0), "linf": 2.0, "l1": 1.0}
"""How far the difference of two numbers of a vector moves at most when the vector moves by 1."""


def norm_of_ones(count: int, norm: str) -> float:
    """The norm of a vector of so many ones, which is how far two points of [0, 1]^count can be apart.

    >>> [norm_of_ones(4, norm) for norm in ("l2", "linf", "l1")]
    [2.0, 1.0, 4.0]
    """
    return {"l2": math.sqrt(count), "linf": 1.0, "l1": float(count)}[norm]
