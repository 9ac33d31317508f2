"""Arguments that several bounds share, checked in one place and broadcast together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["broadcast", "counts", "levels", "sizes", "within"]


def broadcast(*arrays: ArrayLike) -> tuple[FloatArray, ...]:
    """The arguments as arrays of one shape."""
    try:
        return tuple(np.broadcast_arrays(*(np.asarray(array, np.float64) for array in arrays)))
    except ValueError:
        shapes = ", ".join(str(np.shape(array)) for array in arrays)
        raise UsageError(f"arguments of shapes {shapes} do not broadcast to one shape") from None


def counts(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, least: int = 1) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Successes, trials (at least `least`) and levels, as arrays of one shape."""
    successes, trials, level = broadcast(k, n, levels(alpha))
    right = _whole(successes) & _whole(trials) & (trials >= least) & (successes >= 0) & (successes <= trials)
    if not np.all(right):
        seen = f"{_first(successes, right)} of {_first(trials, right)}"
        raise UsageError(f"counts are {seen}; they are whole numbers, k from 0 to n successes of n >= {least} trials")
    return successes, trials, level


def sizes(n: ArrayLike, least: int) -> FloatArray:
    """Numbers of samples, whole and at least `least`."""
    samples = np.asarray(n, np.float64)
    right = _whole(samples) & (samples >= least)
    if not np.all(right):
        raise UsageError(f"n is {_first(samples, right)}; it is a whole number of at least {least}")
    return samples


def levels(alpha: ArrayLike) -> FloatArray:
    """Probabilities of error, strictly between 0 and 1."""
    level = np.asarray(alpha, np.float64)
    right = (level > 0) & (level < 1)
    if not np.all(right):
        seen = _first(level, right)
        raise UsageError(f"alpha is {seen}; it is a probability of error strictly between 0 and 1, such as 0.001")
    return level


def within(name: str, values: ArrayLike, *, below_one: bool = False) -> FloatArray:
    """Values of [0, 1], or of [0, 1)."""
    numbers = np.asarray(values, np.float64)
    right = (numbers >= 0) & ((numbers < 1) if below_one else (numbers <= 1))
    if not np.all(right):
        raise UsageError(f"{name} has {_first(numbers, right)}; it lies in [0, 1{')' if below_one else ']'}")
    return numbers


def _whole(values: FloatArray) -> NDArray[np.bool_]:
    whole: NDArray[np.bool_] = np.isfinite(values) & (values == np.floor(values))
    return whole


def _first(values: FloatArray, right: NDArray[np.bool_]) -> str:
    return f"{float(values[~right][0]):g}"
