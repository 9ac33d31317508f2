"""Corrupt a batch of images, each with draws of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.errors import UsageError
from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS, Constants
from shiftproof.perturbations.corruptions.draws import draw_words
from shiftproof.rng import checked_seed, derive

__all__ = ["corrupt"]

# what is worked on at once stays small: intermediate results of large images would not fit otherwise
_NUMBERS = 1 << 20
_SMALLEST = 8


def corrupt(
    images: Tensor,
    corruption: str,
    severity: int,
    *,
    seed: int = 0,
    ids: Sequence[str | int] | None = None,
    constants: Constants = "auto",
) -> Tensor:
    """The images (N x C x H x W, float in [0, 1]) corrupted at a severity from 1 to 5.

    One channel is gray, two are red and green, three are red, green and blue. What happens to an image depends on it,
    the seed and its id (its number if there are no `ids`), not on the others.

    >>> images = torch.rand(2, 3, 32, 32)
    >>> both = corrupt(images, "fog", 3, ids=["a", "b"])
    >>> bool((corrupt(images[1:], "fog", 3, ids=["b"]) == both[1:]).all())
    True
    """
    method = CORRUPTIONS.create(corruption, {"severity": severity, "constants": constants})
    names = _checked(images, ids)
    if images.shape[1] == 2:
        colour = F.pad(images, (0, 0, 0, 0, 0, 1))
        return corrupt(colour, corruption, severity, seed=seed, ids=names, constants=constants)[:, :2].contiguous()
    seed, shape = checked_seed(seed), (images.shape[1], images.shape[2], images.shape[3])
    count, rows = method.size(shape), max(_NUMBERS // math.prod(shape), 1)
    result = torch.empty_like(images, memory_format=torch.contiguous_format)
    with torch.no_grad():
        for start in range(0, len(images), rows):
            some = slice(start, start + rows)
            keys = [derive(seed, "corruption", corruption, method.severity, name) for name in names[some] if count]
            words = draw_words(keys, count) if count else torch.empty(len(images[some]), 0, dtype=torch.int32)
            given = images[some].detach().float().contiguous()
            result[some] = method.apply(given, words.to(images.device)).clamp_(0, 1)
    return result


def _checked(images: Any, ids: Sequence[str | int] | None) -> Sequence[str | int]:
    """The ids; UsageError unless images and ids can be corrupted."""
    if not isinstance(images, Tensor) or not images.is_floating_point():
        seen = images.dtype if isinstance(images, Tensor) else type(images).__name__
        raise UsageError(f"images are {seen}; corruptions take a float tensor in [0, 1] (divide bytes by 255)")
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[1] not in (1, 2, 3) or min(shape[2:]) < _SMALLEST:
        raise UsageError(
            f"images of shape {shape} can't be corrupted; they should be N x C x H x W with 1 to 3 channels "
            f"and at least {_SMALLEST} x {_SMALLEST} pixels"
        )
    if len(images):
        low, high = (float(end) for end in images.aminmax())
        if not (low >= 0 and high <= 1):
            hint = "divide by 255" if low >= 0 and 2 < high <= 255 else "undo their normalisation first"
            raise UsageError(f"images run from {low:.3g} to {high:.3g}; corruptions are defined on [0, 1]: {hint}")
    names = range(len(images)) if ids is None else ids
    if len(names) != len(images):
        raise UsageError(f"there are {len(names)} ids for {len(images)} images; every image has one")
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
            raise UsageError(f"an id is {name!r}; ids are strings or whole numbers")
    return names
