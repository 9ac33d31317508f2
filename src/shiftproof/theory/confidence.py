"""What a statement about a whole domain pays for being made from a sample of it, and from certificates that may err."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shiftproof.errors import UsageError

__all__ = ["Terms", "check_level", "sampling_term", "split_terms"]

_FRACTIONS = np.geomspace(1e-3, 0.9, 60)
"""Parts of the chance of error that may go to wrong certificates; which is best depends on counts alone."""


@dataclass(frozen=True)
class Terms:
    """What is taken off a share: for drawing samples, and for certificates that may be wrong.

    `level` is the chance that either is too small. Of it `noise_level` was spent on wrong certificates that share
    their noise: their part of all samples is a random number with mean alpha, below alpha / noise_level otherwise.
    """

    sampling: float
    wrong: float
    level: float
    noise_level: float = 0.0

    @property
    def total(self) -> float:
        """Both together."""
        return self.sampling + self.wrong


def sampling_term(n: int, level: float, functions: int = 0) -> float:
    """How far below its mean over `n` independent units the truth may lie, but with probability `level`.

    Without `functions`, the one-sided Dvoretzky-Kiefer-Wolfowitz-Massart term, which covers every increasing function
    of one number a sample at once; it needs level <= 1/2. With a number of functions that were fixed before the data
    was seen, Hoeffding's term for all of them.

    >>> round(sampling_term(1_000, 0.05), 4)
    0.0387
    """
    if n < 1:
        raise UsageError("a shift certificate needs at least one sample")
    return math.sqrt(math.log(max(functions, 1) / level) / (2 * n))


def split_terms(n: int, alpha: float, level: float, *, shared: bool = True, functions: int = 0) -> Terms:
    """The terms of a statement that fails with probability `level` at most, from `n` units.

    `alpha` is the chance that one certificate is wrong. With noise of its own for every sample it is taken off as it
    is; where samples share noise, wrong ones can come together, and alpha / d' is taken off, where d' is the part of
    the level that makes the sum of both terms least. That depends on counts alone, not on what was measured.
    """
    if not alpha:
        return Terms(sampling_term(n, level, functions), 0.0, level)
    if not shared:
        return Terms(sampling_term(n, level, functions), alpha, level)
    options = [
        Terms(sampling_term(n, level * (1 - part), functions), min(1.0, alpha / (level * part)), level, level * part)
        for part in _FRACTIONS.tolist()
    ]
    return min(options, key=lambda one: one.total)


def check_level(level: float, name: str = "confidence") -> float:
    """The chance of error of a level such as 0.95, from 0.5 (below it the sampling term does not hold) to below 1."""
    good = isinstance(level, int | float) and not isinstance(level, bool) and 0.5 <= level < 1
    if not good:
        raise UsageError(f"the {name} is {level!r}; it is the probability that a statement holds, from 0.5 to below 1")
    return 1 - float(level)
