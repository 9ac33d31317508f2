"""Bounds on the mean of scores in [0, 1], where votes are soft and a binomial bound does not apply."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.statistics._arguments import broadcast, levels, sizes, within
from shiftproof.types import FloatArray, IntArray

__all__ = ["bernoulli_round", "bernstein_lower", "bernstein_upper", "hoeffding_lower", "hoeffding_upper"]


def hoeffding_lower(mean: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Hoeffding's lower bound on an expectation, from the mean of `n` independent scores in [0, 1].

    Holds with probability at least ``1 - alpha`` for an `n` fixed in advance. At least 0; arguments broadcast.

    >>> float(hoeffding_lower(0.99, 100_000, alpha=0.001).round(6))
    0.984123
    """
    average, samples, level = broadcast(within("mean", mean), sizes(n, least=1), levels(alpha))
    return np.maximum(average - np.sqrt(-np.log(level) / (2 * samples)), 0.0)


def hoeffding_upper(mean: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Hoeffding's upper bound; the mirror image of `hoeffding_lower`. At most 1.

    >>> float(hoeffding_upper(0.01, 100_000, alpha=0.001).round(6))
    0.015877
    """
    average, samples, level = broadcast(within("mean", mean), sizes(n, least=1), levels(alpha))
    return np.minimum(average + np.sqrt(-np.log(level) / (2 * samples)), 1.0)


def bernstein_lower(mean: ArrayLike, variance: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Empirical Bernstein lower bound (Maurer and Pontil, 2009) on an expectation, for scores in [0, 1].

    `variance` is the unbiased sample variance (``ddof=1``) of the same `n` >= 2 independent scores. Holds with
    probability at least ``1 - alpha`` for an `n` fixed in advance; tighter than Hoeffding's where scores vary little.
    At least 0; arguments broadcast.

    >>> float(bernstein_lower(0.99, 0.0099, 100_000, alpha=0.001).round(6))
    0.988596
    """
    average, slack = _bernstein(mean, variance, n, alpha)
    return np.maximum(average - slack, 0.0)


def bernstein_upper(mean: ArrayLike, variance: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Empirical Bernstein upper bound; the mirror image of `bernstein_lower`. At most 1.

    >>> float(bernstein_upper(0.01, 0.0099, 100_000, alpha=0.001).round(6))
    0.011404
    """
    average, slack = _bernstein(mean, variance, n, alpha)
    return np.minimum(average + slack, 1.0)


def bernoulli_round(scores: ArrayLike, uniforms: ArrayLike) -> IntArray:
    """Votes of 0 or 1 that are 1 with probability `scores`, by one fresh uniform number of [0, 1) each.

    Given uniforms that are independent of everything else, votes of independent scores are independent trials whose
    success probability is the expected score: their count is binomial, and `lower_bound` or `sequence_lower` is exact.

    >>> bernoulli_round([0.0, 0.3, 0.3, 1.0], [0.0, 0.2, 0.4, 0.9])
    array([0, 1, 0, 1])
    """
    score, uniform = within("scores", scores), within("uniforms", uniforms, below_one=True)
    if score.shape != uniform.shape:
        raise UsageError(f"scores of shape {score.shape} need as many uniforms, not shape {uniform.shape}")
    return (uniform < score).astype(np.int64)


def _bernstein(mean: ArrayLike, variance: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> tuple[FloatArray, FloatArray]:
    average, spread, samples, level = broadcast(within("mean", mean), variance, sizes(n, least=2), levels(alpha))
    # scores in [0, 1] with this mean can't vary more; the margin is for variances computed in single precision
    greatest = average * (1 - average) * samples / (samples - 1)
    if not np.all((spread >= 0) & (spread <= greatest + 1e-6)):
        raise UsageError("a variance is negative, or larger than scores in [0, 1] with that mean can have")
    log_term = np.log(2 / level)
    return average, np.sqrt(2 * spread * log_term / samples) + 7 * log_term / (3 * (samples - 1))
