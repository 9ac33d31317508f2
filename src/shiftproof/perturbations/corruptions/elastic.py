"""Elastic deformations: the image stretched a little differently everywhere."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.draws import symmetric
from shiftproof.perturbations.corruptions.filters import gaussian_filter

__all__ = ["ElasticTransform"]


@CORRUPTIONS.register("elastic-transform", order="13", group="digital", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class ElasticTransform(Corruption):
    """A random affine map that moves three points, then pixels read at positions moved by smooth noise."""

    # all in sides of the image: the noise before it is smoothed, the standard deviation by which it is, and how far
    # the three points move; the second set is that of the package imagecorruptions, which has no affine map
    published: ClassVar[Published] = {
        "cifar": ((0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)),
        "imagenet": ((0.0625, 0.01, 0), (0.08125, 0.01, 0), (0.10625, 0.01, 0), (0.125, 0.01, 0), (0.15, 0.01, 0)),
    }

    def size(self, shape: tuple[int, ...]) -> int:
        """Two moves for each of three points, and two for every pixel."""
        return 6 + 2 * shape[1] * shape[2]

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images stretched."""
        amplitude, sigma, jitter = self.figures(images.shape)
        height, width = images.shape[-2:]
        if jitter:
            images = _jolted(images, symmetric(words[:, :6]).view(-1, 3, 2) * (jitter * min(height, width)))
        if amplitude:
            noise = symmetric(words[:, 6:]).view(-1, 2, height, width)
            smooth = gaussian_filter((height, width), (sigma * height, sigma * width), 3.0, "reflect")
            images = _displaced(images, smooth(noise).mul_(amplitude * min(height, width)))
        return images


def _displaced(images: Tensor, moves: Tensor) -> Tensor:
    """Pixels read at positions moved by `moves` (N x 2 x H x W, pixels, horizontal first); mirrored outside."""
    grid = []
    for axis, size in enumerate(reversed(images.shape[-2:])):
        line = torch.arange(size, device=images.device, dtype=images.dtype)
        places = line if axis == 0 else line[:, None]
        grid.append((places + moves[:, axis]).mul_(2).add_(1).div_(size).sub_(1))
    return F.grid_sample(images, torch.stack(grid, -1), padding_mode="reflection", align_corners=False)


def _jolted(images: Tensor, moves: Tensor) -> Tensor:
    """The affine map of images that moves three points about their centre by `moves` (N x 3 x 2, pixels)."""
    height, width = images.shape[-2:]
    far = min(height, width) // 3
    centre = torch.tensor([width // 2, height // 2], dtype=torch.float64, device=images.device)
    points = centre + torch.tensor([[far, far], [far, -far], [-far, -far]], device=images.device)
    moved = torch.cat([points + moves.double(), moves.new_ones(len(moves), 3, 1).double()], -1)
    # where a pixel is read: the inverse map, in positions from -1 to 1 between the outermost pixels
    inverse = torch.linalg.lstsq(moved, points.expand(len(moves), 3, 2)).solution
    sides = (torch.arange(side, device=images.device) for side in (width, height))
    x, y = torch.meshgrid(*sides, indexing="xy")
    homogeneous = torch.stack([x, y, torch.ones_like(x)], -1).to(inverse)
    places = torch.einsum("hwk,nkd->nhwd", homogeneous, inverse)
    grid = places * 2 / torch.tensor([width - 1, height - 1]).to(places) - 1
    return F.grid_sample(images, grid.to(images), padding_mode="reflection", align_corners=True)
