"""Divergence balls around a share, against a search over all pairs of coins."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from shiftproof.errors import UsageError
from shiftproof.theory import (
    DIVERGENCES,
    chi_square_share,
    hellinger_share,
    kl_share,
    total_variation_share,
)

Q = np.linspace(0, 1, 200_001)


def coins(name: str, m: float) -> np.ndarray:
    """The divergence of a coin of probability q from one of probability m, for all q of a grid."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if name == "Hellinger":
            return np.sqrt(np.maximum(1 - np.sqrt(Q * m) - np.sqrt((1 - Q) * (1 - m)), 0))
        if name == "total variation":
            return np.abs(Q - m)
        if name == "chi-square":
            return (Q - m) ** 2 / m + (Q - m) ** 2 / (1 - m)
        return np.where(Q > 0, Q * np.log(Q / m), 0) + np.where(Q < 1, (1 - Q) * np.log((1 - Q) / (1 - m)), 0)


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("m", [0.3, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("size", [0.01, 0.1, 0.4])
def test_least_share_within_the_ball(name: str, m: float, size: float) -> None:
    least = Q[coins(name, m) <= size].min()
    assert float(DIVERGENCES[name](m, size)) == pytest.approx(least, abs=1e-5)


@pytest.mark.parametrize(("m", "rho"), [(0.9, 0.1), (0.7, 0.3)])
def test_hellinger_is_the_published_formula(m: float, rho: float) -> None:
    """Weber et al., "Certifying out-of-domain generalization for blackbox functions" (2022)."""
    c = math.sqrt(rho**2 * (1 - rho**2) ** 2 * (2 - rho**2))
    v = m * (1 - m)
    published = m - 2 * c * math.sqrt(v) - rho**2 * (2 - rho**2) * (m - v / m)
    assert float(hellinger_share(m, rho)) == pytest.approx(published, abs=1e-12)


@pytest.mark.parametrize("share_of", [hellinger_share, total_variation_share, chi_square_share, kl_share])
def test_ends_and_order(share_of: Callable[[float, float], np.ndarray]) -> None:
    assert float(share_of(0.8, 0.0)) == pytest.approx(0.8, abs=1e-7)
    assert float(share_of(0.0, 0.3)) == 0
    sizes = np.linspace(0, 1, 21)
    assert (np.diff(share_of(0.8, sizes)) <= 1e-12).all()


def test_disjoint_laws_leave_nothing() -> None:
    assert hellinger_share(0.99, 1.0) == 0
    assert total_variation_share(1.0, 1.0) == 0


def test_bad_input() -> None:
    with pytest.raises(UsageError, match="share"):
        hellinger_share(1.2, 0.1)
    with pytest.raises(UsageError, match="Hellinger"):
        hellinger_share(0.9, 1.5)
    with pytest.raises(UsageError, match="KL"):
        kl_share(0.9, -1)
