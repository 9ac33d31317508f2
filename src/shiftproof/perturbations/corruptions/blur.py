"""Blurs that draw nothing: out of focus, zooming while the shutter is open, Gaussian."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.filters import Separable, correlate, gaussian_filter, padded, zoom_matrix

__all__ = ["DefocusBlur", "GaussianBlur", "ZoomBlur"]


@CORRUPTIONS.register("defocus-blur", order="4", group="blur", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class DefocusBlur(Corruption):
    """Every point spread over a disk, as when the lens is out of focus."""

    # radius of the disk, standard deviation of the blur that smooths its rim (pixels)
    published: ClassVar[Published] = {
        "cifar": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
        "imagenet": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    }

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images out of focus."""
        kernel = disk(*self.figures(images.shape)).to(images.device)
        reach = len(kernel) // 2
        return correlate(padded(images, (reach, reach), (reach, reach), "mirror"), kernel[None, None])


@lru_cache(maxsize=16)
def disk(radius: float, softness: float) -> Tensor:
    """A disk of sum 1 with a rim smoothed over three pixels (five if its radius is above 8): odd x odd."""
    soft = 1 if radius <= 8 else 2
    reach = int(np.ceil(radius))
    line = np.arange(-reach, reach + 1)
    sharp = np.pad((line[:, None] ** 2 + line**2 <= radius**2).astype(np.float64), soft)
    weights = np.exp(-0.5 * (np.arange(-soft, soft + 1) / softness) ** 2)
    for axis in (0, 1):
        sharp = np.apply_along_axis(np.convolve, axis, sharp, weights, mode="same")
    return torch.from_numpy(sharp / sharp.sum()).float()


@CORRUPTIONS.register("zoom-blur", order="7", group="blur", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class ZoomBlur(Corruption):
    """The mean of the image at several magnifications, as when the camera moves towards it."""

    # end (not included) and step of the magnifications, which begin at 1
    published: ClassVar[Published] = {
        "cifar": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),
        "imagenet": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    }

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The mean of the images and their magnifications."""
        return _zooms(tuple(images.shape[-2:]), *self.figures(images.shape))(images)


@lru_cache(maxsize=16)
def _zooms(shape: tuple[int, int], end: float, step: float) -> Separable:
    # the image itself counts once more than its magnification by 1
    factors = [1.0, *np.arange(1, end, step)]
    rows = [zoom_matrix(shape[0], factor) / len(factors) for factor in factors]
    return Separable.of(rows, [zoom_matrix(shape[1], factor) for factor in factors])


@CORRUPTIONS.register("gaussian-blur", order="17", group="extra", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class GaussianBlur(Corruption):
    """Every point spread over a bell."""

    published: ClassVar[Published] = {"cifar": (0.4, 0.6, 0.7, 0.8, 1), "imagenet": (1, 2, 3, 4, 6)}

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images blurred."""
        sigma = self.figures(images.shape)
        return gaussian_filter(tuple(images.shape[-2:]), (sigma, sigma))(images)
