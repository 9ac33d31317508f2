"""Exact (Clopper-Pearson) bounds on a success probability, for a number of trials fixed in advance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betainccinv, betaincinv, expit

from shiftproof.statistics._arguments import broadcast, counts, within
from shiftproof.statistics._roots import last_rejected
from shiftproof.types import Estimate, FloatArray

__all__ = ["interval", "lower_bound", "randomized_lower_bound", "randomized_upper_bound", "upper_bound"]


def lower_bound(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """One-sided Clopper-Pearson lower bound on a success probability, from `k` successes in `n` trials.

    Holds with probability at least ``1 - alpha`` for an `n` fixed in advance. Where sampling stops at a moment that
    depends on the counts it does not hold: use `sequence_lower`. `k`, `n` and `alpha` broadcast.

    >>> float(lower_bound(99_000, 100_000, alpha=0.001).round(6))
    0.988989
    """
    successes, trials, level = counts(k, n, alpha)
    # the quantile of a beta distribution is undefined at k = 0, where the bound is 0
    quantile = betaincinv(np.maximum(successes, 1), trials - successes + 1, level)
    return np.where(successes == 0, 0.0, quantile)


def upper_bound(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """One-sided Clopper-Pearson upper bound; the mirror image of `lower_bound`, with the same condition on `n`.

    Near certain success, bound the failures with it: ``upper_bound(n - k, n, alpha)`` keeps all its digits where
    ``1 - lower_bound(k, n, alpha)`` has lost them.

    >>> float(upper_bound(1_000, 100_000, alpha=0.001).round(6))
    0.011011
    """
    successes, trials, level = counts(k, n, alpha)
    failures = trials - successes
    return np.where(failures == 0, 1.0, betainccinv(successes + 1, np.maximum(failures, 1), level))


def randomized_lower_bound(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, u: ArrayLike) -> FloatArray:
    """Stevens' lower bound: the p with ``P(X > k) + u P(X = k) = alpha``, between the plain bounds of k and k + 1.

    `u` is one uniform number of [0, 1) per bound, drawn before the counts are seen and never drawn again. The bound
    then exceeds the true p with probability exactly `alpha`, for an `n` fixed in advance; the plain bound wastes some
    of it. When all trials succeed, a `u` below alpha has no solution but 1. Claims therefore end at ``0.5 ** (1 / n)``,
    the median-unbiased estimate from n successes of n (at the plain bound, should `alpha` exceed 0.5): no luck with `u`
    certifies more than the data suggest. Coverage stays exact for every p below that, and above it no bound is wrong.

    >>> randomized_lower_bound(100, 100, alpha=0.001, u=[0.9999, 0.5, 0.0]).round(4)
    array([0.9333, 0.9397, 0.9931])
    """
    return np.asarray(expit(_randomized_log_odds(*counts(k, n, alpha), u)))


def randomized_upper_bound(k: ArrayLike, n: ArrayLike, alpha: ArrayLike, u: ArrayLike) -> FloatArray:
    """The mirror image of `randomized_lower_bound`; of failures, it keeps its digits near certain success.

    >>> randomized_upper_bound(0, 100, alpha=0.001, u=[0.9999, 0.5, 0.0]).round(4)
    array([0.0667, 0.0603, 0.0069])
    """
    successes, trials, level = counts(k, n, alpha)
    return np.asarray(expit(-_randomized_log_odds(trials - successes, trials, level, u)))


def interval(k: int, n: int, level: float = 0.95) -> Estimate:
    """The proportion k / n with its two-sided Clopper-Pearson interval.

    >>> interval(16, 100).format()
    '16.0% (9.4% to 24.7%)'
    """
    tail = (1 - level) / 2
    low, high = float(lower_bound(k, n, tail)), float(upper_bound(k, n, tail))
    return Estimate(k / n, low, high, n, level, "clopper-pearson")


def _randomized_log_odds(k: FloatArray, n: FloatArray, alpha: FloatArray, u: ArrayLike) -> FloatArray:
    k, n, alpha, drawn = broadcast(k, n, alpha, within("u", u, below_one=True))
    with np.errstate(divide="ignore"):
        # k = 0: (1 - p) ** n = (1 - alpha) / (1 - u), or p = 0;  k = n: p ** n = alpha / u, or the cap
        log_miss = np.minimum(np.log1p(-alpha) - np.log1p(-drawn), 0.0) / n
        log_p = np.log(np.minimum(alpha / np.maximum(drawn, alpha), np.maximum(alpha, 0.5))) / n
        result = np.where(k == 0, np.log(-np.expm1(log_miss)) - log_miss, log_p - np.log(-np.expm1(log_p)))
    some = (k > 0) & (k < n)
    result[some] = _stevens(k[some], n[some], alpha[some], drawn[some])
    return result


def _stevens(k: FloatArray, n: FloatArray, alpha: FloatArray, u: FloatArray) -> FloatArray:
    failures = n - k

    def evidence(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        more, at_least = _at_least(k + 1, n, x), _at_least(k, n, x)
        tail = more + u * (at_least - more)
        slope = (at_least - more) * (u * k * expit(-x) + (1 - u) * failures * expit(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(alpha) - np.log(tail), -slope / tail

    plain = np.log(betaincinv(k, failures + 1, alpha)) - np.log(betainccinv(failures + 1, k, alpha))
    return last_rejected(evidence, plain)


def _at_least(k: FloatArray, n: FloatArray, x: FloatArray) -> FloatArray:
    """P(X >= k) at log-odds x, for k from 1 to n, by whichever of p and 1 - p has more digits."""
    result = np.empty(k.shape)
    low = x < 0
    result[low] = betainc(k[low], (n - k + 1)[low], expit(x[low]))
    result[~low] = betaincc((n - k + 1)[~low], k[~low], expit(-x[~low]))
    return result
