"""Digits in six domains that differ by the angle at which they are seen; no digit is in two domains."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from shiftproof.domains.digits import embedded_digits
from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.npz import DIGITS, LAYOUT, read_images
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.perturbations import rotate
from shiftproof.rng import numpy_generator
from shiftproof.types import IntArray

__all__ = ["RotatedDigits", "RotatedMNIST"]

ANGLES = (0, 15, 30, 45, 60, 75)


@DOMAINS.register(
    "rotated-digits", content="0, 15, ..., 75 degrees: six times about 300 images 1x8x8", source="embedded"
)
@dataclass(frozen=True)
class RotatedDigits(DataSet):
    """Embedded digits, turned by 0 to 75 degrees in six domains."""

    def load(self) -> Domains:
        """Build the six domains; always the same."""
        images, digits = embedded_digits()
        return _rotated("rotated-digits", "digits", images[:, None], digits)


@DOMAINS.register("rotated-mnist", content="0, 15, ..., 75 degrees: six times about 11,667 images 1x28x28")
@dataclass(frozen=True)
class RotatedMNIST(DataSet):
    """MNIST, turned by 0 to 75 degrees in six domains."""

    files = ("mnist.npz",)
    layout = LAYOUT

    def load(self) -> Domains:
        """Build the six domains; always the same."""
        images, digits, _ = read_images(find_file("rotated-mnist", self.files[0], self.layout))
        return _rotated("rotated-mnist", "mnist", images / np.float32(255), digits)


def _rotated(name: str, origin: str, images: NDArray[np.floating], digits: IntArray) -> Domains:
    order = numpy_generator(0, name, "order").permutation(len(images))
    domains = []
    for angle, indices in zip(ANGLES, np.array_split(order, len(ANGLES)), strict=True):
        turned = rotate(torch.from_numpy(images[indices]), angle).clamp(0, 1)
        # eight bits: a quarter of the memory, and what an image file would hold
        pixels = (turned * 255).round().to(torch.uint8)
        ids = [f"{origin}/{i}" for i in indices]
        domains.append(Domain.from_arrays(f"angle={angle}", pixels, digits[indices], DIGITS, ids=ids))
    return Domains(name, domains)
