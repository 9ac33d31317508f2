"""How many inputs a network sees at once on an accelerator: as many as its free memory holds."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from shiftproof.errors import ModelError

__all__ = ["Slices", "fitting_slice"]

LARGEST, SHARE, HELD = 8_192, 0.5, 8
"""Inputs at a time at most; the part of free memory that is used; and how many of the largest activation are held."""


def fitting_slice(place: torch.device, largest: int) -> int:
    """A power of two of inputs whose activations fit into half of a device's free memory.

    `largest` is how many numbers the largest activation of one input has.
    """
    free = _free_bytes(place)
    fitting = LARGEST if free is None else int(SHARE * free) // max(1, 4 * HELD * largest)
    return min(1 << (max(1, fitting).bit_length() - 1), LARGEST)


class Slices:
    """Cuts a batch into slices; where memory runs out, the slice is halved, for good, and that is said."""

    def __init__(self, size: int) -> None:
        self.size = size

    def map(self, function: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """`function` of all inputs, a slice at a time."""
        while True:
            try:
                pieces = [inputs[start : start + self.size] for start in range(0, len(inputs), self.size)]
                return torch.cat([function(piece) for piece in pieces])
            except torch.OutOfMemoryError as error:
                self._halve(min(self.size, len(inputs)), error)

    def _halve(self, tried: int, error: Exception) -> None:
        if tried < 2:
            raise ModelError("the device has not enough memory for one input at a time; give --device cpu") from error
        self.size = 1 << ((tried - 1).bit_length() - 1)
        warnings.warn(f"the device ran out of memory: it gets {self.size} inputs at a time from now on", stacklevel=3)
        if torch.accelerator.is_available():
            torch.accelerator.empty_cache()


def _free_bytes(place: torch.device) -> int | None:
    """None where a device does not say."""
    ask = getattr(torch.accelerator, "get_memory_info", None)
    if ask is None:  # torch before 2.9
        return int(torch.cuda.mem_get_info(place)[0]) if place.type == "cuda" else None
    try:
        return int(ask(place)[0])
    except (RuntimeError, NotImplementedError):
        return None
