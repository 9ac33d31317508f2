"""Linear maps of images: products with a matrix on either side, and correlations with a kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy.fft import irfft2, next_fast_len, rfft2
from torch import Tensor

from shiftproof.types import FloatArray, IntArray

__all__ = ["Border", "Separable", "correlate", "folded", "gaussian_filter", "gaussian_taps", "padded", "zoom_matrix"]

Border = Literal["edge", "mirror", "reflect"]
"""What lies outside: the last pixel again, the image mirrored at the last pixel, or mirrored behind it."""


def folded(positions: IntArray, size: int, border: Border) -> IntArray:
    """Positions along a side of `size` pixels, those outside brought inside.

    >>> folded(np.arange(-2, 6), 4, "mirror").tolist(), folded(np.arange(-2, 6), 4, "reflect").tolist()
    ([2, 1, 0, 1, 2, 3, 2, 1], [1, 0, 0, 1, 2, 3, 3, 2])
    """
    if border == "edge":
        return positions.clip(0, size - 1)
    turn = 2 * size - (2 if border == "mirror" else 0)
    inside = positions % turn
    return np.minimum(inside, turn - inside - (border == "reflect"))


@dataclass(frozen=True, eq=False)
class Separable:
    """Maps X to the sum of A X B' over pairs of matrices; `left` is H' x (H pairs), `right` W x (pairs W')."""

    left: Tensor
    right: Tensor

    @classmethod
    def of(cls, rows: Sequence[FloatArray], columns: Sequence[FloatArray]) -> Separable:
        """From the matrices A (H' x H each) and B (W' x W each)."""
        left, right = np.stack(rows, -1), np.concatenate([each.T for each in columns], -1)
        flat = left.reshape(len(left), -1)
        return cls(torch.from_numpy(flat).float(), torch.from_numpy(right).float())

    def __call__(self, images: Tensor) -> Tensor:
        """N x C x H x W to N x C x H' x W'."""
        count, channels, height, width = images.shape
        left, right = self.left.to(images.device), self.right.to(images.device)
        pairs = left.shape[1] // height
        across = (images.reshape(-1, width) @ right).view(count * channels, height * pairs, -1)
        return torch.matmul(left, across).view(count, channels, len(left), -1)


def gaussian_taps(sigma: float, truncate: float = 4.0) -> FloatArray:
    """The weights of a Gaussian filter (an odd number), cut off at `truncate` standard deviations."""
    radius = int(truncate * sigma + 0.5)
    if radius == 0:
        return np.ones(1)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    return np.asarray(weights / weights.sum())


def filter_matrix(size: int, taps: FloatArray, border: Border) -> FloatArray:
    """The matrix (size x size) that correlates a line of pixels with `taps`."""
    matrix, radius = np.zeros((size, size)), len(taps) // 2
    sources = folded(np.arange(size)[:, None] + np.arange(-radius, radius + 1), size, border)
    np.add.at(matrix, (np.arange(size)[:, None], sources), taps[None, :])
    return matrix


@lru_cache(maxsize=64)
def gaussian_filter(
    shape: tuple[int, int], sigma: tuple[float, float], truncate: float = 4.0, border: Border = "edge"
) -> Separable:
    """Gaussian blur of images with H x W pixels, with a standard deviation (pixels) for each side."""
    down, across = (
        filter_matrix(size, gaussian_taps(each, truncate), border) for size, each in zip(shape, sigma, strict=True)
    )
    return Separable.of([down], [across])


def zoom_matrix(size: int, factor: float) -> FloatArray:
    """The matrix (size x size) that magnifies the middle of a line by linear interpolation, cut to its length."""
    kept = math.ceil(size / factor)
    first, length = (size - kept) // 2, max(round(kept * factor), size)
    positions = np.arange(length) * ((kept - 1) / max(length - 1, 1))
    below = np.minimum(positions.astype(np.int64), max(kept - 2, 0))
    above, lines = np.minimum(below + 1, kept - 1), np.arange(length)
    matrix = np.zeros((length, size))
    np.add.at(matrix, (lines, first + below), 1 - (positions - below))
    np.add.at(matrix, (lines, first + above), positions - below)
    start = (length - size) // 2
    return matrix[start : start + size]


def padded(images: Tensor, down: tuple[int, int], across: tuple[int, int], border: Border) -> Tensor:
    """Images with pixels added above and below, left and right; more than their size if need be."""
    height, width = images.shape[-2:]
    if border == "edge":
        return F.pad(images, (*across, *down), mode="replicate") if any((*across, *down)) else images
    if border == "mirror" and max(down) < height and max(across) < width:
        return F.pad(images, (*across, *down), mode="reflect")
    rows = torch.from_numpy(folded(np.arange(-down[0], height + down[1]), height, border))
    columns = torch.from_numpy(folded(np.arange(-across[0], width + across[1]), width, border))
    return images.index_select(-2, rows.to(images.device)).index_select(-1, columns.to(images.device))


def correlate(images: Tensor, kernels: Tensor) -> Tensor:
    """Padded images (N x C x H x W) correlated with kernels (N or 1 x 1 x h x w); N x C x (H-h+1) x (W-w+1)."""
    (height, width), (tall, wide) = images.shape[-2:], kernels.shape[-2:]
    # what wraps around stays in the rows and columns that are cut off
    size = (next_fast_len(height, real=True), next_fast_len(width, real=True))
    threads = torch.get_num_threads()
    # not torch's transform, which rounds an image otherwise when it comes with others
    waves, weights = (rfft2(each.cpu().numpy(), size, workers=threads) for each in (images, kernels))
    waves *= weights.conj()
    result = irfft2(waves, size, workers=threads, overwrite_x=True)[..., : height - tall + 1, : width - wide + 1]
    return torch.from_numpy(result).to(images)
