"""Drops of water or mud on the lens."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.perturbations.corruptions.colour import luminance
from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Corruption, Published
from shiftproof.perturbations.corruptions.draws import normal
from shiftproof.perturbations.corruptions.edges import distances, edges
from shiftproof.perturbations.corruptions.filters import gaussian_filter, padded

__all__ = ["Spatter"]

_WATER, _MUD = (175 / 255, 238 / 255, 238 / 255), (63 / 255, 42 / 255, 20 / 255)
_FARTHEST = 20
_RELIEF = ((-2.0, -1.0, 0.0), (-1.0, 1.0, 1.0), (0.0, 1.0, 2.0))


@CORRUPTIONS.register("spatter", order="18", group="extra", paper="Hendrycks & Dietterich 2019")
@dataclass(frozen=True)
class Spatter(Corruption):
    """Blobs of smooth noise: water that catches light (severities 1 to 3), then mud that hides the image."""

    # mean and deviation of the noise, its smoothing (pixels), the threshold for a blob, weight of water or smoothing of
    # mud, whether it is mud
    published: ClassVar[Published] = {
        "cifar": (
            (0.62, 0.1, 0.7, 0.7, 0.5, 0),
            (0.65, 0.1, 0.8, 0.7, 0.5, 0),
            (0.65, 0.3, 1, 0.69, 0.5, 0),
            (0.65, 0.1, 0.7, 0.69, 0.6, 1),
            (0.65, 0.1, 0.5, 0.68, 0.6, 1),
        ),
        "imagenet": (
            (0.65, 0.3, 4, 0.69, 0.6, 0),
            (0.65, 0.3, 3, 0.68, 0.6, 0),
            (0.65, 0.3, 2, 0.68, 0.5, 0),
            (0.65, 0.3, 1, 0.65, 1.5, 1),
            (0.67, 0.4, 1, 0.65, 1.5, 1),
        ),
    }

    def size(self, shape: tuple[int, ...]) -> int:
        """One word for every pixel."""
        return shape[1] * shape[2]

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images behind drops."""
        mean, deviation, sigma, threshold, last, mud = self.figures(images.shape)
        shape = tuple(images.shape[-2:])
        noise = normal(words).mul_(deviation).add_(mean).view(-1, 1, *shape)
        liquid = gaussian_filter(shape, (sigma, sigma))(noise)
        colour = images.new_tensor(_MUD if mud else _WATER).view(1, 3, 1, 1)
        if images.shape[1] == 1:
            colour = luminance(colour)
        if mud:
            cover = gaussian_filter(shape, (last, last))((liquid > threshold).float())
            cover = cover.where(cover >= 0.8, 0)
            return images * (1 - cover) + cover * colour
        return images + _glints(liquid.where(liquid >= threshold, 0)).mul_(last) * colour


def _glints(liquid: Tensor) -> Tensor:
    """How much light drops (N x 1 x H x W, 0 between them) catch, at most 1: a relief by the distance to their rims."""
    drops = (liquid.clamp(0, 1) * 255).floor_()
    depth = _mean(distances(edges(drops, 50, 150), _FARTHEST)).floor_()
    relief = F.conv2d(padded(_spread(depth), (1, 1), (1, 1), "mirror"), drops.new_tensor(_RELIEF)[None, None])
    glints = drops * _mean(relief.clamp_(0, 255)).round_()
    return glints / glints.amax((2, 3), keepdim=True).clamp(min=1)


def _mean(planes: Tensor) -> Tensor:
    return F.avg_pool2d(padded(planes, (1, 1), (1, 1), "mirror"), 3, 1)


def _spread(depth: Tensor) -> Tensor:
    """Whole numbers up to the farthest distance replaced by 0 to 255 so that all are about as frequent."""
    flat = depth.flatten(1).long()
    counts = torch.zeros(len(flat), _FARTHEST + 1, device=depth.device).scatter_add_(
        1, flat, torch.ones_like(depth).flatten(1)
    )
    below = counts.cumsum(1)
    first = below.where(below > 0, torch.inf).amin(1, keepdim=True)
    total = float(flat.shape[1])
    levels = ((below - first) * (255 / (total - first).clamp(min=1))).round_().clamp_(min=0)
    # where all numbers are the same they stay
    levels = torch.where(first < total, levels, torch.arange(_FARTHEST + 1, device=depth.device))
    return levels.gather(1, flat).view_as(depth)
