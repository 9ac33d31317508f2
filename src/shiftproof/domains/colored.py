"""Colour as a shortcut: the construction of Arjovsky et al. on embedded digits and on MNIST.

Digits 0-4 are class 0, 5-9 class 1; a label is flipped with probability 0.25, then the colour is the label flipped
with probability e. Where e = 0.1 or 0.2, trusting colour beats reading the digit; where e = 0.9 it is wrong nine times
in ten.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.domains.digits import embedded_digits
from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.npz import LAYOUT, read_images
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.rng import numpy_generator
from shiftproof.types import IntArray

__all__ = ["ColoredDigits", "ColoredMNIST", "colored_domain", "gray_domain", "in_colour", "other_colour"]

CLASSES = ("0-4", "5-9")
LABEL_NOISE = 0.25
CONSTRUCTION_SEED = 0
GRAY = "gray"
Pixel = TypeVar("Pixel", np.uint8, np.float32)
PAPER = "Arjovsky et al., Invariant Risk Minimization, 2019"


def colored_domain(
    flip: float,
    images: NDArray[Pixel],
    digits: IntArray,
    ids: list[str],
    construction: str,
) -> Domain:
    """One environment: N gray images H x W become N x 2 x H x W with the digit in the channel of its colour."""
    generator = numpy_generator(CONSTRUCTION_SEED, construction, f"e={flip}")
    labels = (digits >= 5) ^ (generator.random(len(digits)) < LABEL_NOISE)
    colours = labels ^ (generator.random(len(digits)) < flip)
    domain = Domain.from_arrays(f"e={flip}", in_colour(images, colours), labels, CLASSES, ids=ids)
    return replace(domain, counterfactual=other_colour)


def in_colour(images: NDArray[Pixel], colours: NDArray[np.integer | np.bool_]) -> NDArray[Pixel]:
    """N gray images H x W as N x 2 x H x W: each in the channel of its colour, 0 or 1, and nothing in the other."""
    inputs = np.zeros((len(images), 2, *images.shape[1:]), images.dtype)
    inputs[np.arange(len(images)), colours.astype(np.int64)] = images
    return inputs


def gray_domain(images: NDArray[np.uint8], digits: IntArray, ids: list[str], construction: str) -> Domain:
    """The environment without colour: the digit in both channels, N x 2 x H x W, with labels as noisy as elsewhere.

    Each channel has it at 1/sqrt(2) of its brightness, so that two digits are as far apart in l2 as in one channel, and
    radii can be compared with those of the coloured ones.
    """
    generator = numpy_generator(CONSTRUCTION_SEED, construction, GRAY)
    labels = (digits >= 5) ^ (generator.random(len(digits)) < LABEL_NOISE)
    half = images[:, None] * np.float32(1 / (255 * np.sqrt(2)))
    return Domain.from_arrays(GRAY, np.repeat(half, 2, axis=1), labels, CLASSES, ids=ids)


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


@DOMAINS.register(
    "colored-mnist",
    content="e = 0.1, 0.2, 0.9: 25,000 + 25,000 + 10,000 images 2x14x14; with gray=true 50,000 without colour",
    paper=PAPER,
)
@dataclass(frozen=True)
class ColoredMNIST(DataSet):
    """MNIST, coloured so that colour predicts the label in two domains and betrays it in the third.

    The first 50,000 training digits, shuffled, make the sources; the last 10,000 make the target. `size` is 14 (every
    second pixel, as published) or 28. `gray` adds a domain of that name: the 50,000 digits of the sources without
    colour. A digit is in the same part (train, validation) of every domain, so that a model of the coloured ones is
    measured on gray digits it has not seen by --split held-out. It has to be asked for, because a study without
    `sources` trains on all domains but the target.
    """

    size: Literal[14, 28] = 14
    gray: bool = False

    files = ("mnist.npz",)
    layout = LAYOUT

    def load(self) -> Domains:
        """Build the environments; always the same."""
        images, digits, _ = read_images(find_file("colored-mnist", self.files[0], self.layout))
        step = 28 // self.size
        images = images[:60_000, 0, ::step, ::step]
        order = numpy_generator(CONSTRUCTION_SEED, "colored-mnist", "order").permutation(50_000)
        pieces = zip((0.1, 0.2, 0.9), (order[:25_000], order[25_000:], np.arange(50_000, 60_000)), strict=True)
        domains = [
            colored_domain(e, images[i], digits[i], [f"mnist/{k}" for k in i], "colored-mnist") for e, i in pieces
        ]
        if self.gray:
            ids = [f"mnist/{k}" for k in range(50_000)]
            domains.append(gray_domain(images[:50_000], digits[:50_000], ids, "colored-mnist"))
        return Domains("colored-mnist", domains)

    def outline(self) -> Outline:
        """Two channels, two classes."""
        counts = {"e=0.1": 25_000, "e=0.2": 25_000, "e=0.9": 10_000}
        gray = {GRAY: 50_000} if self.gray else {}
        return Outline((2, self.size, self.size), CLASSES, {**counts, **gray}, dict.fromkeys(counts, other_colour))
