"""Falling snow."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.colour import luminance
from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.draws import normal, symmetric
from shiftproof.perturbations.corruptions.filters import Separable, zoom_matrix
from shiftproof.perturbations.corruptions.motion import moved

__all__ = ["Snow"]


@CORRUPTIONS.register("snow", order="8", group="weather", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class Snow(Corruption):
    """A paler image behind two layers of flakes, which are specks of noise drawn out along their fall."""

    # mean and standard deviation of the noise, its magnification, the threshold for a flake, half of the length and the
    # fading of its trace (pixels), what remains of the image's colours
    published: ClassVar[Published] = {
        "cifar": (
            (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
            (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
            (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
            (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
            (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
        ),
        "imagenet": (
            (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
            (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
            (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
            (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
            (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
        ),
    }

    def size(self, shape: tuple[int, ...]) -> int:
        """The angle of the fall, and one word for every pixel of the noise before it is magnified."""
        return 1 + shape[1] * shape[2]

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images in snow."""
        mean, deviation, zoom, threshold, radius, sigma, kept = self.figures(images.shape)
        height, width = images.shape[-2:]
        noise = normal(words[:, 1:]).mul_(deviation).add_(mean).view(-1, 1, height, width)
        specks = _zoom((height, width), zoom)(noise)
        specks = specks.where(specks >= threshold, 0).clamp_(0, 1)
        # motion is to the left: on its side, snow falls down
        flakes = moved(specks.mT, symmetric(words[:, 0]), radius, sigma).mT.flip(-2)
        pale = torch.maximum(images, luminance(images).mul(1.5).add_(0.5))
        return images.mul(kept).add_(pale, alpha=1 - kept).add_(flakes).add_(flakes.flip(-2, -1))


@lru_cache(maxsize=16)
def _zoom(shape: tuple[int, int], factor: float) -> Separable:
    return Separable.of([zoom_matrix(shape[0], factor)], [zoom_matrix(shape[1], factor)])
