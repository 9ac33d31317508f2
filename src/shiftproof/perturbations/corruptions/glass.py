"""Blur by frosted glass: pixels show near ones."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.filters import gaussian_filter
from shiftproof.types import IntArray

__all__ = ["GlassBlur"]


@CORRUPTIONS.register("glass-blur", order="5", group="blur", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class GlassBlur(Corruption):
    """Pixels replaced by near ones, one after the other, between two Gaussian blurs.

    The paper speaks of exchanging pixels; the program that made its data copies one over the other, and so does this.
    """

    # standard deviation of the blurs, farthest neighbour (pixels), rounds
    published: ClassVar[Published] = {
        "cifar": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
        "imagenet": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    }

    def size(self, shape: tuple[int, ...]) -> int:
        """One word for every replacement."""
        _, reach, rounds = self.figures(shape)
        return int(rounds * max(shape[1] - 2 * reach, 0) * max(shape[2] - 2 * reach, 0))

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images behind glass."""
        sigma, reach, rounds = self.figures(images.shape)
        height, width = images.shape[-2:]
        blur = gaussian_filter((height, width), (sigma, sigma))
        sources = torch.from_numpy(shuffled(words.cpu().numpy(), (height, width), reach, rounds)).to(images.device)
        pixels = blur(images).flatten(2)
        return blur(pixels.gather(2, sources[:, None].expand_as(pixels)).view_as(images))


def shuffled(words: NDArray[np.int32], shape: tuple[int, int], reach: int, rounds: int) -> IntArray:
    """Which pixel (N x HW) is seen where, when those from the last to the first are replaced by a near one.

    The replacements of one wave touch different pixels, so that their order does not matter: they are done at once.
    """
    count, (height, width) = len(words), shape
    # a row for each pixel, a column for each image
    seen = np.repeat(np.arange(height * width, dtype=np.int32)[:, None], count, 1)
    if words.shape[1]:
        places, sequence, ends = _waves(shape, reach, rounds)
        halves = words.T[sequence].view(np.uint16).reshape(len(sequence), count, 2)
        across, down = ((halves[..., half].astype(np.int32) * (2 * reach) >> 16) - reach for half in (0, 1))
        sources = (places[:, None] + down * width + across) * count + np.arange(count)
        flat = seen.reshape(-1)
        for start, end in pairwise(ends):
            seen[places[start:end]] = flat.take(sources[start:end])
    return seen.T.astype(np.int64, order="C")


@lru_cache(maxsize=16)
def _waves(shape: tuple[int, int], reach: int, rounds: int) -> tuple[IntArray, IntArray, list[int]]:
    """The pixels that are replaced and the numbers of the replacements, by waves, and where waves begin and end."""
    (height, width), apart = shape, 2 * reach
    turn, row, column = np.indices((rounds, height - apart, width - apart)).reshape(3, -1)
    # pixels meet only within `apart` pixels: one row later is apart + 1 waves later, a round is later than all near
    wave = row * (apart + 1) + column + turn * (apart * (apart + 2) + 1)
    sequence = np.argsort(wave, kind="stable")
    ends = np.searchsorted(wave[sequence], np.arange(wave.max() + 2))
    places = (height - reach - row) * width + (width - reach - column)
    return places[sequence], sequence, ends.tolist()
