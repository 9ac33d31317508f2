"""Brightness, contrast and saturation."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published

__all__ = ["Brightness", "Contrast", "Saturate", "luminance"]


def luminance(images: Tensor) -> Tensor:
    """How bright pixels are (N x 1 x H x W), by the weights of television."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    return red.mul(0.299).add_(green, alpha=0.587).add_(blue, alpha=0.114)[:, None]


@CORRUPTIONS.register("brightness", order="11", group="weather", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class Brightness(Corruption):
    """A constant added to the largest of a pixel's colours; hue and saturation stay."""

    published: ClassVar[Published] = {"cifar": (0.05, 0.1, 0.15, 0.2, 0.3), "imagenet": (0.1, 0.2, 0.3, 0.4, 0.5)}

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images in daylight."""
        value = images.amax(1, keepdim=True)
        shares = torch.where(value > 0, images / value, 1)
        return shares.mul_((value + self.figures(images.shape)).clamp_(max=1))


@CORRUPTIONS.register("contrast", order="12", group="digital", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class Contrast(Corruption):
    """Every number drawn towards the mean of its colour over the image."""

    published: ClassVar[Published] = {"cifar": (0.75, 0.5, 0.4, 0.3, 0.15), "imagenet": (0.4, 0.3, 0.2, 0.1, 0.05)}

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images with less contrast."""
        kept, means = self.figures(images.shape), images.mean((2, 3), keepdim=True)
        return images.mul(kept).add_(means, alpha=1 - kept)


@CORRUPTIONS.register("saturate", order="19", group="extra", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class Saturate(Corruption):
    """Saturation times a factor and plus a constant, in hue, saturation and value.

    Images with one channel stay as they are. In colour images gray has the hue of red, which the constant brings out.
    """

    # factor, constant
    published: ClassVar[Published] = {
        "cifar": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
        "imagenet": ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2)),
    }

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images with paler or stronger colours."""
        if images.shape[1] == 1:
            return images.clone()
        factor, constant = self.figures(images.shape)
        value = images.amax(1, keepdim=True)
        missing = value - images
        spread = missing.amax(1, keepdim=True)
        saturation = torch.where(value > 0, spread / value, 0).mul_(factor).add_(constant).clamp_(max=1)
        gray = missing.new_tensor([0.0, 1.0, 1.0]).view(1, 3, 1, 1)
        return value - torch.where(spread > 0, missing / spread, gray).mul_(saturation).mul_(value)
