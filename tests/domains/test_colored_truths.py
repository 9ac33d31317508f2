"""Coloured digits: classifiers that see shape or colour alone have the accuracy that the construction says (O20)."""

import math

import numpy as np
import pytest

from shiftproof.domains import Domain, load_domains
from shiftproof.domains.digits import embedded_digits
from shiftproof.types import IntArray

NOISE = 0.25


def shape_and_colour(domain: Domain) -> tuple[IntArray, IntArray]:
    """What each sample's digit says (5 and above), and in which channel it is."""
    _, digits = embedded_digits()
    shape = np.array([digits[int(str(one).rpartition("/")[2])] >= 5 for one in domain.ids]).astype(np.int64)
    inputs, _ = domain.tensors()
    return shape, inputs.flatten(2).sum(2).argmax(1).numpy()


def closed_form(flip_trained: float, flip: float) -> tuple[float, float, float]:
    """Accuracy of shape alone, of colour alone, and of the best classifier of the training domain, by its cases."""
    best = 0.0
    log_odds = [math.log((1 - one) / one) for one in (NOISE, flip_trained)]
    for shape_right in (True, False):
        for colour_right in (True, False):
            chance = (1 - NOISE if shape_right else NOISE) * ((1 - flip) if colour_right else flip)
            votes = (1 if shape_right else -1) * log_odds[0] + (1 if colour_right else -1) * log_odds[1]
            best += chance * (votes > 0)
    return 1 - NOISE, 1 - flip, best


def test_the_published_numbers() -> None:
    # label noise .25, colour flipped in .15 of the training samples on average and .9 of the others
    assert closed_form(0.15, 0.9) == pytest.approx((0.75, 0.1, 0.1))


@pytest.mark.parametrize("flip", [0.1, 0.2, 0.9])
def test_shape_and_colour_alone_have_their_accuracy(flip: float) -> None:
    domain = load_domains("colored-digits")[f"e={flip}"]
    shape, colour = shape_and_colour(domain)
    expected = closed_form(0.15, flip)
    for answers, truth in zip((shape, colour), expected[:2], strict=True):
        measured = float((answers == domain.labels).mean())
        assert abs(measured - truth) < 4 * math.sqrt(truth * (1 - truth) / len(domain))
    # the best classifier of the training domains believes colour
    assert expected[2] == pytest.approx(expected[1])
