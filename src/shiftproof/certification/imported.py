"""Certificates that others have logged: what may be said of them, and whether so many votes can have given them."""

from __future__ import annotations

import math

from scipy.stats import norm

__all__ = ["IMPORTED", "NOT_STATED", "alpha_text", "largest_radius", "least_alpha", "least_votes"]

IMPORTED = "imported"
"""The bound behind a certificate that was logged elsewhere: there are no votes to derive it from again."""
NOT_STATED = 1.0
"""The alpha of certificates that state none: that one is wrong with a probability of at most 1 is all that is known."""


def alpha_text(alpha: float) -> str:
    """The chance that a certificate is wrong, in words.

    >>> alpha_text(0.001), alpha_text(NOT_STATED)
    ('alpha 0.001', 'alpha not stated')
    """
    return "alpha not stated" if alpha >= NOT_STATED else f"alpha {alpha:g}"


def largest_radius(sigma: float, n: int, alpha: float) -> float:
    """The l2 radius that `n` unanimous votes under Gaussian noise certify: sigma Phi^-1(alpha^(1/n)), and none more.

    >>> round(largest_radius(0.5, 100_000, 0.001), 4)
    1.9057
    """
    return float(sigma * norm.isf(-math.expm1(math.log(alpha) / n)))


def least_alpha(radius: float, sigma: float, n: int) -> float:
    """The smallest alpha at which `n` votes can certify a radius: Phi(radius / sigma)^n.

    >>> round(least_alpha(1.955, 0.5, 100_000), 4)
    0.0099
    """
    return float(math.exp(n * norm.logcdf(radius / sigma)))


def least_votes(radius: float, sigma: float, alpha: float) -> int:
    """The smallest number of votes that can certify a radius at `alpha`.

    >>> least_votes(1.9057, 0.5, 0.001)
    99978
    """
    return math.ceil(math.log(alpha) / float(norm.logcdf(radius / sigma)))
