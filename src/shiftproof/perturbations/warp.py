"""Geometric deformations of images by one bilinear interpolation."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["affine_warp", "positions", "rotate", "turned", "warp"]


def warp(images: Tensor, grid: Tensor) -> Tensor:
    """Images (N x C x H x W) read at the positions of `grid` (N x H x W x 2, horizontal first); outside them is 0.

    Positions run from -1 to 1 between the centres of the outermost pixels, along both sides. One image meets many
    grids, and one grid many images, without being copied.
    """
    count = max(len(images), len(grid))
    images, grid = (given.expand(count, -1, -1, -1) if len(given) == 1 else given for given in (images, grid))
    # corners aligned, as in `positions`: without it the undeformed grid is not the identity
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=True)


def positions(images: Tensor) -> tuple[Tensor, Tensor]:
    """Where the pixels of images are: horizontal positions (W) and vertical ones (H x 1, downwards), from -1 to 1.

    >>> positions(torch.zeros(1, 1, 3, 5))[0].tolist()
    [-1.0, -0.5, 0.0, 0.5, 1.0]
    """
    height, width = images.shape[-2:]
    return _line(width, images), _line(height, images)[:, None]


def affine_warp(images: Tensor, matrices: Tensor) -> Tensor:
    """Images with each pixel read where its matrix (N x 2 x 3) sends its position (x, y, 1)."""
    x, y = positions(images)
    entries = matrices.to(images)[..., None, None]
    # products by element: a matrix product may round more on some devices
    return warp(images, torch.stack([row[:, 0] * x + row[:, 1] * y + row[:, 2] for row in entries.unbind(1)], -1))


def turned(images: Tensor, radians: Tensor) -> Tensor:
    """Images turned counter-clockwise about their centre, each by its angle (N numbers)."""
    height, width = images.shape[-2:]
    # positions run from -1 to 1 along both sides: in an oblong image the two units differ
    aspect = max(height - 1, 1) / max(width - 1, 1)
    angle = radians.double()
    cosine, sine, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    matrices = torch.stack([cosine, -sine * aspect, zero, sine / aspect, cosine, zero], -1)
    return affine_warp(images, matrices.view(-1, 2, 3))


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Images (N x C x H x W) turned counter-clockwise about their centre; what comes from outside is 0.

    >>> image = torch.rand(1, 1, 8, 8)
    >>> bool((rotate(image, 0) - image).abs().max() < 1e-5)
    True
    """
    return turned(images, torch.tensor([math.radians(degrees)], dtype=torch.float64, device=images.device))


def _line(pixels: int, like: Tensor) -> Tensor:
    if pixels == 1:
        return like.new_zeros(1)
    # the interpolation adds the 1 again: what was rounded before it is taken away comes back exactly, as linspace's
    # values do not; in float32 a pixel misses itself by at most 8e-6 of a pixel up to a side of 256
    return torch.arange(pixels, dtype=like.dtype, device=like.device) / ((pixels - 1) / 2) - 1
