"""Poisson numbers by inversion, for a few hundred rates at once."""

from functools import lru_cache

import numpy as np
import torch
from scipy.stats import poisson
from torch import Tensor

__all__ = ["LEVELS", "poisson_counts"]

LEVELS = 256
_CELLS = 1024


def poisson_counts(levels: Tensor, uniforms: Tensor, most: float) -> Tensor:
    """Poisson numbers at the rate `most` * level / 255 for levels 0..255 (any shape), by inversion of `uniforms`."""
    guide, distribution, width = _tables(most)
    # where the search begins: the count at the lower end of the uniform's cell
    counts = guide.take(levels * _CELLS + (uniforms * _CELLS).long()).long()
    places = (levels * width + counts).view(-1)
    flat = uniforms.reshape(-1)
    left = torch.nonzero(flat >= distribution.take(places)).view(-1)
    while len(left):
        places[left] += 1
        left = left[flat[left] >= distribution.take(places[left])]
    return (places.view_as(levels) - levels * width).to(uniforms.dtype)


@lru_cache(maxsize=16)
def _tables(most: float) -> tuple[Tensor, Tensor, int]:
    rates = most * np.arange(LEVELS) / (LEVELS - 1)
    width = int(poisson.ppf(1 - 2**-26, most)) + 2
    distribution = np.asarray(poisson.cdf(np.arange(width), rates[:, None]), np.float32)
    # every uniform number finds its place, also the largest
    distribution[:, -1] = 1
    cells = np.arange(_CELLS, dtype=np.float32) / _CELLS
    guide = np.stack([np.searchsorted(row, cells, side="right") for row in distribution]).astype(np.int16)
    return torch.from_numpy(guide), torch.from_numpy(distribution).view(-1), width
