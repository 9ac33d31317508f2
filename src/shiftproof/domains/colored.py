"""Colour as a shortcut: the construction of Arjovsky et al. on embedded digits and on MNIST.

Digits 0-4 are class 0, 5-9 class 1; a label is flipped with probability 0.25, then the colour is the label flipped
with probability e. Where e = 0.1 or 0.2, trusting colour beats reading the digit; where e = 0.9 it is wrong nine times
in ten.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.domains.digits import embedded_digits
from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.npz import LAYOUT, read_images
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.rng import numpy_generator
from shiftproof.types import IntArray

__all__ = ["ColoredDigits", "ColoredMNIST", "colored_domain", "other_colour"]

CLASSES = ("0-4", "5-9")
LABEL_NOISE = 0.25
CONSTRUCTION_SEED = 0
PAPER = "Arjovsky et al., Invariant Risk Minimization, 2019"


def colored_domain(
    flip: float,
    images: NDArray[np.uint8] | NDArray[np.float32],
    digits: IntArray,
    ids: list[str],
    construction: str,
) -> Domain:
    """One environment: N gray images H x W become N x 2 x H x W with the digit in the channel of its colour."""
    generator = numpy_generator(CONSTRUCTION_SEED, construction, f"e={flip}")
    labels = (digits >= 5) ^ (generator.random(len(digits)) < LABEL_NOISE)
    colours = labels ^ (generator.random(len(digits)) < flip)
    inputs = np.zeros((len(images), 2, *images.shape[1:]), images.dtype)
    inputs[np.arange(len(images)), colours.astype(np.int64)] = images
    domain = Domain.from_arrays(f"e={flip}", inputs, labels, CLASSES, ids=ids)
    return replace(domain, counterfactual=other_colour)


def other_colour(inputs: Tensor) -> Tensor:
    """The same digits in the other colour (N x 2 x H x W)."""
    return inputs.flip(1)


@DOMAINS.register(
    "colored-digits", content="e = 0.1, 0.2, 0.9: 700 + 700 + 397 images 2x8x8", source="embedded", paper=PAPER
)
@dataclass(frozen=True)
class ColoredDigits(DataSet):
    """Embedded digits, coloured so that colour predicts the label in two domains and betrays it in the third."""

    def load(self) -> Domains:
        """Build the three environments; always the same."""
        images, digits = embedded_digits()
        order = numpy_generator(CONSTRUCTION_SEED, "colored-digits", "order").permutation(len(images))
        pieces = zip((0.1, 0.2, 0.9), np.split(order, [700, 1400]), strict=True)
        return Domains(
            "colored-digits",
            [colored_domain(e, images[i], digits[i], [f"digits/{k}" for k in i], "colored-digits") for e, i in pieces],
        )


@DOMAINS.register("colored-mnist", content="e = 0.1, 0.2, 0.9: 25,000 + 25,000 + 10,000 images 2x14x14", paper=PAPER)
@dataclass(frozen=True)
class ColoredMNIST(DataSet):
    """MNIST, coloured so that colour predicts the label in two domains and betrays it in the third.

    The first 50,000 training digits, shuffled, make the sources; the last 10,000 make the target. `size` is 14 (every
    second pixel, as published) or 28.
    """

    size: Literal[14, 28] = 14

    files = ("mnist.npz",)

    def load(self) -> Domains:
        """Build the three environments; always the same."""
        images, digits, _ = read_images(find_file("colored-mnist", self.files[0], LAYOUT))
        step = 28 // self.size
        images = images[:60_000, 0, ::step, ::step]
        order = numpy_generator(CONSTRUCTION_SEED, "colored-mnist", "order").permutation(50_000)
        pieces = zip((0.1, 0.2, 0.9), (order[:25_000], order[25_000:], np.arange(50_000, 60_000)), strict=True)
        return Domains(
            "colored-mnist",
            [colored_domain(e, images[i], digits[i], [f"mnist/{k}" for k in i], "colored-mnist") for e, i in pieces],
        )
