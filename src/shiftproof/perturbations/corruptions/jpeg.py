"""JPEG compression, as by the common library at a low quality."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.filters import Separable, padded
from shiftproof.types import FloatArray

__all__ = ["JPEGCompression", "compressed"]

# the tables of Annex K of the standard: how coarsely each frequency of brightness and of colour is kept
_BRIGHTNESS = """
16 11 10 16  24  40  51  61
12 12 14 19  26  58  60  55
14 13 16 24  40  57  69  56
14 17 22 29  51  87  80  62
18 22 37 56  68 109 103  77
24 35 55 64  81 104 113  92
49 64 78 87 103 121 120 101
72 92 95 98 112 100 103  99
"""
_COLOUR = """
17 18 24 47 99 99 99 99
18 21 26 66 99 99 99 99
24 26 56 99 99 99 99 99
47 66 99 99 99 99 99 99
99 99 99 99 99 99 99 99
99 99 99 99 99 99 99 99
99 99 99 99 99 99 99 99
99 99 99 99 99 99 99 99
"""


@CORRUPTIONS.register("jpeg-compression", order="15", group="digital", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class JPEGCompression(Corruption):
    """JPEG at a quality; colours have half of the resolution."""

    published: ClassVar[Published] = {"cifar": (80, 65, 58, 50, 40), "imagenet": (25, 18, 15, 10, 7)}

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images compressed and read again."""
        return compressed(images, self.figures(images.shape))


def compressed(images: Tensor, quality: int) -> Tensor:
    """Images (N x 1 or 3 x H x W in [0, 1]) as they come back from a JPEG file of a quality from 1 to 100."""
    height, width = images.shape[-2:]
    pixels = (images * 255).round_()
    if images.shape[1] == 1:
        return _kept(_filled(pixels), quality, colour=False)[..., :height, :width] / 255
    pixels = padded(pixels, (0, height % 2), (0, -width % 16), "edge")
    red, green, blue = pixels[:, :1], pixels[:, 1:2], pixels[:, 2:]
    bright = (red * 0.299).add_(green, alpha=0.587).add_(blue, alpha=0.114)
    # blue and red over brightness, in the units of the standard
    colour = torch.cat([(blue - bright).div_(1.772), (red - bright).div_(1.402)], 1).add_(128).round_()
    bright = _kept(_filled(bright.round_()), quality, colour=False)
    # columns are repeated before they are halved, rows after
    halves = _kept(_filled(_halved(colour)), quality, colour=True)
    colour = _enlarged(halves, (height + 1) // 2, (width + 1) // 2).sub_(128)
    bright, colour = bright[..., :height, :width], colour[..., :height, :width]
    over_blue, over_red = colour[:, :1], colour[:, 1:]
    green = bright - (over_blue * 0.344136).add_(over_red, alpha=0.714136).round_()
    channels = [bright + (over_red * 1.402).round_(), green, bright + (over_blue * 1.772).round_()]
    return torch.cat(channels, 1).clamp_(0, 255).div_(255)


def _filled(planes: Tensor) -> Tensor:
    """Planes with their last row and column repeated until 8 x 8 blocks fill them."""
    return padded(planes, (0, -planes.shape[-2] % 8), (0, -planes.shape[-1] % 8), "edge")


def _kept(planes: Tensor, quality: int, *, colour: bool) -> Tensor:
    """What is left of planes (0 to 255) when the frequencies of their 8 x 8 blocks are rounded."""
    forward, backward, steps = _cosines(tuple(planes.shape[-2:]), quality, colour)
    steps = steps.to(planes.device)
    # frequencies come in whole eighths in the library, so that ties are common; it rounds them away from 0
    eighths = forward(planes - 128).mul_(8).round_()
    whole = eighths.abs().div_(8 * steps).add_(0.5).floor_().copysign_(eighths)
    return backward(whole.mul_(steps)).add_(128).round_().clamp_(0, 255)


@lru_cache(maxsize=32)
def _cosines(shape: tuple[int, int], quality: int, colour: bool) -> tuple[Separable, Separable, Tensor]:
    """To the frequencies of all blocks and back, and the steps (H x W) to which frequencies are rounded."""
    wave = np.cos(np.pi * (np.arange(8) + 0.5) * np.arange(8)[:, None] / 8) / 2
    wave[0] /= np.sqrt(2)
    down, across = (np.kron(np.eye(size // 8), wave).astype(np.float64) for size in shape)
    table = np.array((_COLOUR if colour else _BRIGHTNESS).split(), int).reshape(8, 8)
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    steps = np.tile(((table * scale + 50) // 100).clip(1, 255), (shape[0] // 8, shape[1] // 8))
    return Separable.of([down], [across]), Separable.of([down.T], [across.T]), torch.from_numpy(steps).float()


def _halved(planes: Tensor) -> Tensor:
    """Means over 2 x 2 pixels; halves are rounded down and up in turn."""
    rows = planes[..., ::2, :] + planes[..., 1::2, :]
    sums = rows[..., ::2] + rows[..., 1::2]
    sums[..., ::2] += 1
    sums[..., 1::2] += 2
    return sums.div_(4).floor_()


def _enlarged(planes: Tensor, height: int, width: int) -> Tensor:
    """Twice the size by interpolation (the first height x width pixels only), rounded as the library does."""
    large = _interpolation((height, width))(planes[..., :height, :width])
    large[..., ::2] += 8
    large[..., 1::2] += 7
    return large.div_(16).floor_()


@lru_cache(maxsize=16)
def _interpolation(shape: tuple[int, int]) -> Separable:
    down, across = (_doubling(size) for size in shape)
    return Separable.of([down], [across])


def _doubling(size: int) -> FloatArray:
    """The matrix (2 size x size) with three parts of the nearest pixel and one of the next."""
    lines = np.arange(2 * size)
    matrix = np.zeros((2 * size, size))
    np.add.at(matrix, (lines, lines // 2), 3)
    np.add.at(matrix, (lines, (lines // 2 + lines % 2 * 2 - 1).clip(0, size - 1)), 1)
    return matrix
