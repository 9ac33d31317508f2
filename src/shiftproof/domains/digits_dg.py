"""Four kinds of digits on one label space: handwriting, envelopes, house numbers, and the embedded ones."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from shiftproof.domains.digits import embedded_digits
from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.npz import DIGITS, LAYOUT, MNIST, SVHN, USPS, read_images
from shiftproof.domains.registry import DOMAINS, DataSet, find_file

__all__ = ["DigitsDG"]

SIZE = 28


@DOMAINS.register("digits-dg", content="MNIST, USPS, SVHN and the embedded digits as 1x28x28")
@dataclass(frozen=True)
class DigitsDG(DataSet):
    """MNIST, USPS, SVHN and embedded digits as four domains, 28x28 gray."""

    files = ("mnist.npz", "usps.npz", "svhn_gray.npz")
    layout = LAYOUT

    def load(self) -> Domains:
        """Read all four and bring them to one size."""
        domains = []
        for part in (MNIST(), USPS(), SVHN()):
            images, digits, splits = read_images(find_file("digits-dg", part.files[0], self.layout))
            domains.append(
                Domain.from_arrays(part.name, _resize(images / np.float32(255)), digits, DIGITS, splits=splits)
            )
        small, digits = embedded_digits()
        domains.append(Domain.from_arrays("digits", _resize(small[:, None]), digits, DIGITS))
        return Domains("digits-dg", domains)


def _resize(images: NDArray[np.floating]) -> torch.Tensor:
    resized = F.interpolate(torch.from_numpy(images), size=(SIZE, SIZE), mode="bilinear", antialias=True)
    return (resized.clamp(0, 1) * 255).round().to(torch.uint8)
