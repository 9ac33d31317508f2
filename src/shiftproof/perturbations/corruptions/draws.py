"""Random numbers for a batch in which every image has a generator of its own."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["choice", "draw_words", "normal", "symmetric", "uniform"]


def draw_words(keys: Sequence[int], count: int) -> Tensor:
    """`count` random words (N x count, int32) for each key of 128 bits; a row depends on its key only.

    The key becomes the state of one generator that is used again and again: making a generator from a seed takes
    longer than the numbers of a small image.
    """
    generator = np.random.PCG64DXSM(0)
    state = generator.state
    pairs = np.empty((len(keys), (count + 1) // 2), np.uint64)
    for row, key in zip(pairs, keys, strict=True):
        state["state"]["state"] = key
        generator.state = state
        row[:] = generator.random_raw(len(row))
    return torch.from_numpy(pairs.view(np.int32))[:, :count]


def uniform(words: Tensor) -> Tensor:
    """Numbers in [0, 1), multiples of 2^-24."""
    return (words >> 8).float().mul_(2**-24).add_(0.5)


def symmetric(words: Tensor) -> Tensor:
    """Numbers in (-1, 1), odd multiples of 2^-24."""
    return (words >> 8).float().add_(0.5).mul_(2**-23)


def normal(words: Tensor) -> Tensor:
    """Normal numbers with variance 1."""
    return symmetric(words).erfinv_().mul_(2**0.5)


def choice(words: Tensor, count: int) -> Tensor:
    """Whole numbers from 0 to count - 1."""
    return (uniform(words) * count).long()
