"""Truths about shifted domains in closed form."""

from scipy.optimize import brentq
from scipy.stats import norm


def linear_truth(a: float, s: float, eps: float) -> float:
    """Signed margins of a linear classifier are normal: the worst law flips the smallest positive ones."""

    def spent(t: float) -> float:
        return a * (norm.cdf((t - a) / s) - norm.cdf(-a / s)) + s * (norm.pdf(-a / s) - norm.pdf((t - a) / s))

    far = a + 12 * s
    return 0.0 if eps >= spent(far) else 1 - norm.cdf((brentq(lambda t: spent(t) - eps, 0, far) - a) / s)
