"""Fewer and larger pixels."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.types import FloatArray, IntArray

__all__ = ["Pixelate"]


@CORRUPTIONS.register("pixelate", order="14", group="digital", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class Pixelate(Corruption):
    """The image made smaller by a factor, by means over boxes, and large again by repeating pixels."""

    published: ClassVar[Published] = {"cifar": (0.95, 0.9, 0.85, 0.75, 0.65), "imagenet": (0.6, 0.5, 0.4, 0.3, 0.25)}

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images with large pixels."""
        down, across, rows = (
            each.to(images.device) for each in _steps(tuple(images.shape[-2:]), self.figures(images.shape))
        )
        return (torch.matmul(down, images) @ across).index_select(-2, rows)


@lru_cache(maxsize=64)
def _steps(shape: tuple[int, int], factor: float) -> tuple[Tensor, Tensor, Tensor]:
    """Means over boxes of rows (few x H), over boxes of columns and back (W x W), and the box that each row shows."""
    (down, rows), (across, columns) = (_side(size, int(size * factor)) for size in shape)
    return torch.from_numpy(down).float(), torch.from_numpy(across[columns].T).float(), torch.from_numpy(rows)


def _side(size: int, few: int) -> tuple[FloatArray, IntArray]:
    scale, boxes = size / few, np.arange(few)[:, None]
    # a box holds whole pixels: those whose centre lies in it
    first, last = ((boxes + 0.5) * scale + side * scale / 2 + 0.5 for side in (-1, 1))
    inside = (np.arange(size) >= first.astype(int)) & (np.arange(size) < last.astype(int))
    return inside / inside.sum(1, keepdims=True), ((np.arange(size) + 0.5) / scale).astype(np.int64)
