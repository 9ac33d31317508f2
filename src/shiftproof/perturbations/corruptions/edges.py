"""Edges of shapes and distances to them, for many planes at once."""

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.perturbations.corruptions.filters import padded

__all__ = ["distances", "edges"]

_SHALLOW, _STEEP = 0.41421356, 2.41421356


def edges(planes: Tensor, low: float, high: float) -> Tensor:
    """Where thin edges are (N x 1 x H x W, bool), by Canny's method.

    An edge has the largest gradient across it; it begins where that is above `high` and goes on while above `low`.
    """
    slope = planes.new_tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    gradients = F.conv2d(padded(planes, (1, 1), (1, 1), "edge"), torch.stack([slope, slope.T])[:, None])
    across, down = gradients[:, :1], gradients[:, 1:]
    steepness = across.abs() + down.abs()
    around = F.pad(steepness, (1, 1, 1, 1))
    height, width = planes.shape[-2:]

    def beside(rows: int, columns: int) -> Tensor:
        return around[..., 1 + rows : 1 + rows + height, 1 + columns : 1 + columns + width]

    tilt, rising = down.abs(), across * down < 0
    level = (steepness > beside(0, -1)) & (steepness >= beside(0, 1))
    upright = (steepness > beside(-1, 0)) & (steepness >= beside(1, 0))
    one = (steepness > beside(-1, -1)) & (steepness > beside(1, 1))
    other = (steepness > beside(-1, 1)) & (steepness > beside(1, -1))
    slanted = torch.where(rising, other, one)
    crest = torch.where(
        tilt < _SHALLOW * across.abs(), level, torch.where(tilt > _STEEP * across.abs(), upright, slanted)
    )
    weak = crest & (steepness > low)
    found = weak & (steepness > high)
    while True:
        grown = (F.max_pool2d(found.float(), 3, 1, 1) > 0) & weak
        if torch.equal(grown, found):
            return found
        found = grown


def distances(marked: Tensor, farthest: int) -> Tensor:
    """The distance (pixels) of every pixel to the nearest that is marked (N x 1 x H x W, bool), at most `farthest`."""
    line = torch.arange(marked.shape[-1], dtype=torch.float32, device=marked.device)
    before = torch.where(marked, line, -torch.inf).cummax(-1).values
    after = torch.where(marked, -line, -torch.inf).flip(-1).cummax(-1).values.flip(-1)
    in_row = torch.minimum(line - before, -after - line).clamp_(max=farthest).square_()
    nearest = in_row.clone()
    for step in range(1, min(farthest, marked.shape[-2] - 1) + 1):
        for target, source in ((slice(step, None), slice(None, -step)), (slice(None, -step), slice(step, None))):
            part = nearest[..., target, :]
            torch.minimum(part, in_row[..., source, :] + step**2, out=part)
    return nearest.sqrt_().clamp_(max=farthest)
