"""Noise of a camera: electronic, of light that comes in grains, of broken pixels."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.draws import normal, uniform
from shiftproof.perturbations.corruptions.poisson import LEVELS, poisson_counts

__all__ = ["GaussianNoise", "ImpulseNoise", "ShotNoise", "SpeckleNoise"]


@dataclass(frozen=True)
class _PixelNoise(Corruption):
    def size(self, shape: tuple[int, ...]) -> int:
        """One word for every number of the image."""
        return math.prod(shape)


@CORRUPTIONS.register("gaussian-noise", order="1", group="noise", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class GaussianNoise(_PixelNoise):
    """Normal noise added to every number, as in low light."""

    published: ClassVar[Published] = {
        "cifar": (0.04, 0.06, 0.08, 0.09, 0.10),
        "imagenet": (0.08, 0.12, 0.18, 0.26, 0.38),
    }

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images with noise added."""
        return normal(words).mul_(self.figures(images.shape)).view_as(images).add_(images)


@CORRUPTIONS.register("shot-noise", order="2", group="noise", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class ShotNoise(_PixelNoise):
    """Every number replaced by a Poisson count of grains of light, over the count that white has on average.

    The rate is taken at the nearest of 256 levels.
    """

    published: ClassVar[Published] = {"cifar": (500, 250, 100, 75, 50), "imagenet": (60, 25, 12, 5, 3)}

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images in grains."""
        grains = self.figures(images.shape)
        levels = (images * (LEVELS - 1)).round_().long()
        return poisson_counts(levels, uniform(words).view_as(images), grains).div_(grains)


@CORRUPTIONS.register("impulse-noise", order="3", group="noise", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class ImpulseNoise(_PixelNoise):
    """A share of the numbers replaced by 0 or 1, as by broken pixels or bit errors."""

    published: ClassVar[Published] = {
        "cifar": (0.01, 0.02, 0.03, 0.05, 0.07),
        "imagenet": (0.03, 0.06, 0.09, 0.17, 0.27),
    }

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images with numbers replaced."""
        share, lot = self.figures(images.shape), uniform(words).view_as(images)
        return torch.where(lot < share, (lot < share / 2).float(), images)


@CORRUPTIONS.register("speckle-noise", order="16", group="extra", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class SpeckleNoise(_PixelNoise):
    """Normal noise in proportion to every number."""

    published: ClassVar[Published] = {"cifar": (0.06, 0.1, 0.12, 0.16, 0.2), "imagenet": (0.15, 0.2, 0.35, 0.45, 0.6)}

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images with noise added."""
        return normal(words).mul_(self.figures(images.shape)).add_(1).view_as(images).mul_(images)
