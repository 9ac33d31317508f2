"""Bounds on a success probability that hold at every moment at once, so that sampling may stop at any."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, expit, gammaln, xlogy

from shiftproof.statistics._arguments import counts
from shiftproof.statistics._roots import last_rejected
from shiftproof.types import FloatArray

__all__ = ["sequence_lower", "sequence_upper"]

# Stirling's series beats the difference of large logarithms from here on
_SERIES_FROM = 32.0


def sequence_lower(k: ArrayLike, t: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Anytime-valid lower bound on a success probability, from `k` successes in the first `t` trials.

    With probability at least ``1 - alpha`` it holds for all t together, and so at any stopping time, whatever the
    reason for stopping. At equal counts it is below `lower_bound`, which holds only for a t fixed in advance.

    It is the smallest p that a mixture of likelihood ratios against p does not reject (Ville's inequality). The
    mixture has Jeffreys' weights, Beta(1/2, 1/2), cut off below p. `k`, `t` and `alpha` broadcast; ``t = 0`` gives 0.
    But for its last bit the result is never above the exact solution, and its odds are within 1e-10 of it.

    >>> sequence_lower([99, 990, 99_000], [100, 1_000, 100_000], alpha=0.001).round(4)
    array([0.8921, 0.9712, 0.9885])
    """
    return np.asarray(expit(_log_odds(*counts(k, t, alpha, least=0))))


def sequence_upper(k: ArrayLike, t: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Anytime-valid upper bound: ``1 - sequence_lower(t - k, t, alpha)``, with all its digits when it is small.

    Near certain success, bound the failures with it. ``t = 0`` gives 1.

    >>> float(sequence_upper(0, 10_000_000, alpha=0.001).round(12))
    8.07285e-07
    """
    successes, trials, level = counts(k, t, alpha, least=0)
    return np.asarray(expit(-_log_odds(trials - successes, trials, level)))


def _log_odds(k: FloatArray, t: FloatArray, alpha: FloatArray) -> FloatArray:
    result = np.full(k.shape, -np.inf)
    result[k > 0] = _solve(k[k > 0], t[k > 0], alpha[k > 0])
    return result


def _solve(k: FloatArray, t: FloatArray, alpha: FloatArray) -> FloatArray:
    failures, threshold = t - k, -np.log(alpha)
    log_k, log_failures = _log_share(k, t), _log_share(failures, t)
    # the mean likelihood under Jeffreys' weights, in units of the greatest likelihood (and of 1 / pi)
    mean = _half(k) + _half(failures) - _whole(t)

    def evidence(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        p, miss, angle = expit(x), expit(-x), np.arctan(np.exp(-x / 2))
        hits, misses = k * np.logaddexp(0, -x), failures * np.logaddexp(0, x)
        likelihood = hits + k * log_k + misses + failures * log_failures
        with np.errstate(divide="ignore"):
            # a tail that underflows must count as no evidence, -inf
            above = np.log(betainc(failures + 0.5, k + 0.5, miss))
        log_ratio = mean + likelihood + above - np.log(2 * angle)
        # what rounding may have added: evidence that is there only by rounding is none
        rounding = 1e-12 + 2e-15 * (hits + misses)
        shortage = np.where(k > failures, t * miss - failures, k - t * p)
        cut = np.sin(2 * angle) / (4 * angle) * -np.expm1(-np.maximum(log_ratio, 0))
        return log_ratio - threshold - rounding, cut - shortage

    # here the part of the mixture above p alone is worth 1 / alpha: p ** k is alpha / 2 of the mean likelihood
    log_p = (mean + k * log_k + failures * log_failures - threshold - np.log(2 * np.pi)) / k
    # the ratio falls through 1 / alpha exactly once below k / t: where it could rise again, less than half a success
    # below k / t, no likelihood ratio is that large
    return last_rejected(evidence, -np.log(np.expm1(-log_p)))


def _log_share(part: FloatArray, whole: FloatArray) -> FloatArray:
    """log(part / whole); for part 0, which will multiply it, any finite number."""
    part = np.maximum(part, 0.5)
    return np.where(2 * part > whole, np.log1p((part - whole) / whole), np.log(part / whole))


def _half(x: FloatArray) -> FloatArray:
    """log Gamma(x + 1/2) - (x log x - x), without the cancellation."""
    large = np.maximum(x, _SERIES_FROM)
    series = 0.5 * np.log(2 * np.pi) - (1 / 24 - (7 / 2880 - 31 / 40320 / large**2) / large**2) / large
    return np.where(x < _SERIES_FROM, gammaln(x + 0.5) - xlogy(x, x) + x, series)


def _whole(x: FloatArray) -> FloatArray:
    """log Gamma(x + 1) - (x log x - x), without the cancellation."""
    large = np.maximum(x, _SERIES_FROM)
    series = 0.5 * np.log(2 * np.pi * large) + (1 / 12 - (1 / 360 - 1 / 1260 / large**2) / large**2) / large
    return np.where(x < _SERIES_FROM, gammaln(x + 1) - xlogy(x, x) + x, series)
