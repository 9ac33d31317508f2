"""One noisy draw near a domain: closed forms, a fine search, and the bound that was published."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from shiftproof.errors import UsageError
from shiftproof.theory import draw_share, kumar_share, screening_share

SIGMA = 0.25
MARGINS = np.random.default_rng(2).normal(0.15, 0.25, 1_500)
PROBABILITY = norm.cdf(MARGINS / SIGMA)


@pytest.mark.parametrize("eps", [0.02, 0.1, 0.25])
def test_linear_classifier(eps: float) -> None:
    """What moving every sample by eps attains is above the bound; the published bound is below it."""
    shifted = norm.cdf((MARGINS - eps) / SIGMA).mean()
    found = float(draw_share(PROBABILITY, eps, SIGMA))
    assert kumar_share(PROBABILITY.mean(), eps, SIGMA) <= found <= shifted
    assert found <= draw_share(PROBABILITY, eps, SIGMA, 2) <= draw_share(PROBABILITY, eps, SIGMA, math.inf)
    assert draw_share(PROBABILITY, eps, SIGMA, math.inf) == pytest.approx(shifted)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 1.2), st.sampled_from([0.12, 0.5, 1.0]))
def test_with_exact_probabilities_it_is_never_below_the_published_bound(
    values: list[float], eps: float, sigma: float
) -> None:
    share = np.array(values)
    # slopes are taken from a grid, which costs a little
    assert draw_share(share, eps, sigma) >= kumar_share(share.mean(), eps, sigma) - 2e-3


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("eps", [0.03, 0.2])
def test_no_law_that_is_tried_does_worse(p: float, eps: float) -> None:
    """Random ways to spend the budget, and the best of many of them, stay above the bound."""
    rng, share = np.random.default_rng(3), PROBABILITY[:50]
    bound, z = float(draw_share(share, eps, SIGMA, p)), norm.ppf(share)
    moves = rng.exponential(1, (4_000, 50)) * (rng.random((4_000, 50)) < rng.random((4_000, 1)))
    moves *= eps / np.maximum((moves**p).mean(1, keepdims=True) ** (1 / p), 1e-12)
    reached = norm.cdf(z - moves / SIGMA).mean(1)
    assert bound <= reached.min() + 1e-9
    # and the bound is no trivial one
    assert bound > reached.min() - 0.25


def test_the_inner_minimum_is_found() -> None:
    """The closed form for p = 1 against a search over a fine grid of moves, of one sample at one slope."""
    t = np.linspace(0, 2.5, 2_501)
    for probability in (0.5, 0.8, 0.99, 0.9999):
        by_slope = [
            (norm.cdf(norm.ppf(probability) - t / SIGMA) + slope * t).min() - slope * 0.1
            for slope in np.geomspace(0.002, 0.4, 1_000) / SIGMA
        ]
        assert float(draw_share([probability], 0.1, SIGMA)) == pytest.approx(max(by_slope), abs=2e-3)


def test_certain_and_impossible_answers() -> None:
    assert draw_share([1.0], 0.0, SIGMA) == 1
    assert draw_share([0.0, 0.0], [0.0, 0.3], SIGMA).tolist() == [0, 0]
    assert 0 < draw_share([1.0], 0.1, SIGMA) < 1


def test_bad_input() -> None:
    for wrong in ([], [1.2], [math.nan]):
        with pytest.raises(UsageError, match="probabilities"):
            draw_share(wrong, 0.1, SIGMA)
    with pytest.raises(UsageError, match="sigma"):
        draw_share([0.5], 0.1, 0.0)


def exceeds(share: float, noise: np.ndarray) -> float:
    """How often a 95 % screening bound at radius 0 lies above the truth, of many draws (repetitions x samples)."""
    right = (noise < norm.ppf(share)).sum(1)
    n = noise.shape[1]
    return float(np.mean([screening_share(int(k), n, 0.0, 1.0) > share for k in right]))


def test_screening_needs_noise_of_its_own() -> None:
    """A classifier that looks at its noise alone: with one shared draw all samples are right, or none is."""
    rng = np.random.default_rng(4)
    own = rng.normal(size=(2_000, 100))
    assert exceeds(0.53, own) <= 0.05 + 2.33 * math.sqrt(0.05 * 0.95 / 2_000)
    shared = np.repeat(rng.normal(size=(2_000, 1)), 100, 1)
    assert exceeds(0.53, shared) > 0.4
