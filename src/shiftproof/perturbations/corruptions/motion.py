"""Blur by motion while the shutter is open."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.draws import symmetric
from shiftproof.perturbations.corruptions.filters import correlate, padded

__all__ = ["MotionBlur", "moved"]


@CORRUPTIONS.register("motion-blur", order="6", group="blur", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class MotionBlur(Corruption):
    """Every point drawn out along a line that fades, at an angle of up to 45 degrees to the horizontal."""

    # half of the line's length, standard deviation by which it fades (pixels)
    published: ClassVar[Published] = {
        "cifar": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
        "imagenet": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    }

    def size(self, shape: tuple[int, ...]) -> int:
        """The angle."""
        return 1

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images drawn out."""
        return moved(images, symmetric(words[:, 0]), *self.figures(images.shape))


def moved(images: Tensor, slopes: Tensor, radius: int, sigma: float) -> Tensor:
    """Images drawn out to the left at their slope (N numbers, -1 to 1) times 45 degrees; the edge goes on outside."""
    height, width = images.shape[-2:]
    steps = torch.arange(2 * radius + 1, dtype=torch.float64, device=images.device)
    angles = slopes.double().abs()[:, None] * (math.pi / 4)
    # farther out than the image is large there is its edge only
    far_down, far_across = min(math.ceil(2 * radius * math.sqrt(0.5)), height - 1), min(2 * radius, width - 1)
    down = (steps * angles.sin() - 0.5).ceil().long().clamp(max=far_down)
    across = (steps * angles.cos() - 0.5).ceil().long().clamp(max=far_across)
    fading = (-0.5 * (steps / sigma) ** 2).exp()
    kernels = images.new_zeros(len(images), (far_down + 1) * (far_across + 1))
    weights = (fading / fading.sum()).float().expand(len(images), -1)
    kernels.scatter_add_(1, down * (far_across + 1) + across, weights)
    rising = (slopes < 0).view(-1, 1, 1, 1)
    upright = torch.where(rising, images.flip(-2), images)
    kernel = kernels.view(-1, 1, far_down + 1, far_across + 1)
    blurred = correlate(padded(upright, (0, far_down), (0, far_across), "edge"), kernel)
    return torch.where(rising, blurred.flip(-2), blurred)
