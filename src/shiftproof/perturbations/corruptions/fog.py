"""Fog that drifts in clouds."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.draws import symmetric

__all__ = ["Fog", "plasma"]


@CORRUPTIONS.register("fog", order="10", group="weather", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class Fog(Corruption):
    """A fractal cloud laid over the image, which keeps its largest value."""

    # weight of the cloud, factor by which it gets smoother from scale to scale
    published: ClassVar[Published] = {
        "cifar": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
        "imagenet": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    }

    def size(self, shape: tuple[int, ...]) -> int:
        """One word for every point of the cloud but its first."""
        return _side(shape) ** 2 - 1

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images in fog."""
        (weight, decay), (height, width) = self.figures(images.shape), images.shape[-2:]
        cloud = plasma(symmetric(words), _side(images.shape), decay)[:, None, :height, :width]
        largest = images.amax((1, 2, 3), keepdim=True)
        return cloud.mul(weight).add(images).mul_(largest / (largest + weight))


def plasma(draws: Tensor, side: int, decay: float) -> Tensor:
    """Clouds (N x side x side, a power of 2) between 0 and 1 by the diamond-square method, without seams.

    `draws` (N x side^2 - 1) are uniform in (-1, 1). Every point is the mean of four around it and a random number,
    which is smaller by the square of `decay` at every next scale, where points lie twice as dense.
    """
    clouds = draws.new_zeros(len(draws), side, side)
    step, amplitude, used = side, 1.0, 0
    while step > 1:
        half, count = step // 2, (side // step) ** 2
        corners, centres = clouds[:, ::step, ::step], clouds[:, half::step, half::step]
        wobbles = draws[:, used : used + 3 * count].view(-1, 3, side // step, side // step) * amplitude
        across, down = corners + corners.roll(-1, 2), corners + corners.roll(-1, 1)
        centres.copy_((across + across.roll(-1, 1)).div_(4).add_(wobbles[:, 0]))
        above, beside = centres + centres.roll(1, 1), centres + centres.roll(1, 2)
        clouds[:, ::step, half::step] = across.add_(above).div_(4).add_(wobbles[:, 1])
        clouds[:, half::step, ::step] = down.add_(beside).div_(4).add_(wobbles[:, 2])
        step, amplitude, used = half, amplitude / decay**2, used + 3 * count
    low, high = clouds.amin((1, 2), keepdim=True), clouds.amax((1, 2), keepdim=True)
    return clouds.sub_(low).div_(high - low)


def _side(shape: tuple[int, ...] | torch.Size) -> int:
    return 1 << (max(shape[-2:]) - 1).bit_length()
