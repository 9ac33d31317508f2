"""Evidence that what arrives lies beyond a distance from a domain, weighed after every sample."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["FRACTIONS", "Evidence", "Limit", "log_evidence"]

FRACTIONS: tuple[float, ...] = tuple(0.5**power for power in range(1, 13))
"""Shares of the largest stake that are bet side by side; whichever suits the stream soon holds most of the capital."""


@dataclass(frozen=True)
class Limit:
    """What a clipped critic's mean can be at most if the stream lies within a distance, and its lowest value.

    `mean` is U + eps: an upper bound of the critic's mean on the domain, plus the distance. Values are at least `low`
    and at most `high`.
    """

    mean: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and self.low < self.high):
            raise UsageError(f"the limit {self.mean:g} of values in [{self.low:g}, {self.high:g}] makes no sense")
        if self.mean >= self.high:
            raise UsageError(
                f"the critic's values end at {self.high:.4g}, and within the distance a mean may be {self.mean:.4g}, "
                "so that no stream could ever raise this alarm: fit the critic to an example that lies farther away"
            )
        if self.mean <= self.low:
            raise UsageError(f"the limit {self.mean:.4g} is not above the lowest value {self.low:.4g}")

    def stakes(self, values: ArrayLike) -> FloatArray:
        """Values less the limit, over the most that they can fall short of it: at least -1, on average at most 0."""
        clipped = np.clip(np.asarray(values, np.float64), self.low, self.high)
        return np.maximum((clipped - self.mean) / (self.mean - self.low), -1.0)


@dataclass(frozen=True)
class Evidence:
    """Capital of somebody who bets on every sample that the stream lies beyond the limit, starting with 1.

    For a start s and a stake b below 1 / (U + eps - low), ``prod over t >= s of (1 + b (c(x_t) - U - eps))`` is worth 1
    on average at most, if every sample, given those before it, comes from a law within eps of the domain. The capital
    E_t is split between a few stakes, and between starts: 1 / (s (s + 1)) of it is put aside until sample s, so that a
    shift after a year of none is not drowned in what was lost before. E_t reaches 1 / a ever with probability a at most
    (Ville), besides the chance that U is wrong. Sorted files break that: samples of a batch are to be shuffled.

    `log_capital` is what is at stake, one number for each of `FRACTIONS`; `peak` the largest log of E_t so far.
    """

    count: int = 0
    log_capital: tuple[float, ...] = (-math.log(2 * len(FRACTIONS)),) * len(FRACTIONS)
    peak: float = 0.0

    @property
    def log(self) -> float:
        """The log of E_t: what is at stake, and what is put aside for later starts."""
        return float(np.logaddexp(logsumexp(self.log_capital), -math.log(self.count + 2)))

    def update(self, values: ArrayLike, limit: Limit) -> Evidence:
        """After further clipped values of the critic, in the order in which they are counted."""
        given = np.atleast_1d(np.asarray(values, np.float64))
        if not np.isfinite(given).all():
            raise UsageError("a value of the critic is not a number (NaN or infinite)")
        if not len(given):
            return self
        capital = _capital(limit.stakes(given), self)
        # at the end of a batch alone: inside one, samples are in an order that they did not arrive in
        peak = float(_total(capital, self.count)[-1])
        return Evidence(self.count + len(given), tuple(capital[:, -1].tolist()), max(self.peak, peak))

    def alarmed(self, alpha: float) -> bool:
        """Whether E_t has ever reached 1 / alpha."""
        return self.peak >= -math.log(alpha)


def log_evidence(values: ArrayLike, limit: Limit) -> FloatArray:
    """The log of E_t after each value along the last axis (... x T), for many streams at once.

    >>> shifted = np.full(50, 0.9)
    >>> log_evidence(shifted, Limit(0.5, 0.0, 1.0)).round(2)[[0, 9, 49]]
    array([ 0.03,  1.13, 13.98])
    """
    return _total(_capital(limit.stakes(values), Evidence()), 0)


def _capital(stakes: FloatArray, before: Evidence) -> FloatArray:
    """The log of the capital at stake by each fraction, after each sample: fractions x ... x T."""
    first = before.count + 2 + np.arange(stakes.shape[-1])
    deposits = -np.log(first) - np.log(first + 1) - math.log(len(FRACTIONS))
    paths = []
    for fraction, start in zip(FRACTIONS, before.log_capital, strict=True):
        grown = np.log1p(fraction * stakes).cumsum(-1)
        # a deposit made after a sample grows from then on: by what everything grew, less what it grew before
        parts = np.concatenate([np.full((*grown.shape[:-1], 1), start), deposits - grown], -1)
        paths.append(np.logaddexp.accumulate(parts, -1)[..., 1:] + grown)
    return np.stack(paths)


def _total(capital: FloatArray, count: int) -> FloatArray:
    aside = -np.log(count + 2 + np.arange(1, capital.shape[-1] + 1))
    return np.asarray(np.logaddexp(logsumexp(capital, axis=0), aside))
