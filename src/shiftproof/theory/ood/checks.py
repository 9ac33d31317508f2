"""Checks of the arguments that the bounds share; each raises a UsageError that quotes what was seen."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

from shiftproof.errors import UsageError

__all__ = ["Norm", "at_least_zero", "check_norm", "fraction", "positive", "whole"]

Norm = Literal["linf", "l2"]
_LARGEST = 10**18


def positive(value: object, name: str) -> float:
    """A finite number above 0."""
    number = _number(value)
    if not number > 0:
        raise UsageError(f"{name} is {value!r}; it should be a finite number above 0")
    return number


def at_least_zero(value: object, name: str) -> float:
    """A finite number of at least 0."""
    number = _number(value)
    if not number >= 0:
        raise UsageError(f"{name} is {value!r}; it should be a finite number of at least 0")
    return number


def fraction(value: object, name: str) -> float:
    """A number strictly between 0 and 1."""
    number = _number(value)
    if not 0 < number < 1:
        raise UsageError(f"{name} is {value!r}; it should lie strictly between 0 and 1, such as 0.05")
    return number


def whole(value: object, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise UsageError(f"{name} is {value!r}; it should be a whole number of at least {least}")
    if value > _LARGEST:
        raise UsageError(f"{name} is larger than {_LARGEST:.0e}, which is not meant to be a number of anything")
    return int(value)


def check_norm(norm: object) -> Norm:
    """The norm of the perturbations, which also says which Wasserstein distance is meant."""
    for known in get_args(Norm):
        if norm == known:
            return known  # type: ignore[no-any-return]
    raise UsageError(f"norm is {norm!r}; give 'linf' for balls of W_infinity or 'l2' for balls of W_2")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return math.nan
    return float(value) if math.isfinite(value) else math.nan
