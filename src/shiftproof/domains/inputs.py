"""Where a domain's pixels come from: arrays in memory, or files decoded when they are asked for."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.errors import DataError
from shiftproof.types import IntArray

__all__ = ["ArrayInputs", "Inputs", "SubsetInputs"]


class Inputs(Protocol):
    """Samples by number. The training and measuring loops see only this."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample, C x H x W for images."""

    @property
    def kind(self) -> str:
        """What they are: image | text."""

    @property
    def fingerprint(self) -> str:
        """A hash of the content."""

    @property
    def in_memory(self) -> bool:
        """Whether taking a sample again costs no decoding."""

    def __len__(self) -> int: ...

    def take(self, indices: IntArray) -> Tensor:
        """The samples at `indices` as float32 in [0, 1], len(indices) x shape."""

    def prepare(self) -> None:
        """Read everything now if it fits in memory, so that an unreadable file is found before long work starts."""


class ArrayInputs:
    """Samples in memory: uint8 (kept as bytes, divided by 255 when taken) or float32 in [0, 1]."""

    in_memory = True
    kind = "image"

    def __init__(self, values: NDArray[np.uint8] | NDArray[np.float32] | Tensor, owner: str = "data") -> None:
        tensor = torch.as_tensor(values).detach().cpu()
        if tensor.ndim < 2 or tensor.is_complex():
            raise DataError(f"inputs of {owner!r} are {tensor.dtype} of shape {tuple(tensor.shape)}, not N x C x H x W")
        if tensor.dtype != torch.uint8:
            tensor = tensor.to(torch.float32)
            _check_range(tensor, owner)
        self._values = tensor.contiguous()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._values.shape[1:])

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.blake2b(f"{self._values.dtype} {tuple(self._values.shape)}".encode(), digest_size=16)
        digest.update(self._values.numpy().data)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._values)

    def take(self, indices: IntArray) -> Tensor:
        chosen = self._values[torch.from_numpy(indices)]
        return chosen.float() / 255 if chosen.dtype == torch.uint8 else chosen

    def prepare(self) -> None:
        """Nothing to do: everything is in memory."""


class SubsetInputs:
    """Some samples of another `Inputs`, without copying them."""

    def __init__(self, base: Inputs, indices: IntArray) -> None:
        self._base, self._indices = base, indices

    @property
    def shape(self) -> tuple[int, ...]:
        return self._base.shape

    @property
    def kind(self) -> str:
        return self._base.kind

    @property
    def in_memory(self) -> bool:
        return self._base.in_memory

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.blake2b(self._base.fingerprint.encode() + self._indices.tobytes(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self._indices)

    def take(self, indices: IntArray) -> Tensor:
        return self._base.take(self._indices[indices])

    def origin(self, indices: IntArray) -> tuple[Inputs, IntArray]:
        """Where the samples at `indices` come from: the other inputs, and their numbers there."""
        return self._base, self._indices[indices]

    def prepare(self) -> None:
        self._base.prepare()


def _check_range(values: Tensor, owner: str) -> None:
    if not len(values):
        return
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise DataError(f"images of {owner!r} hold values that are not numbers (NaN or infinite)")
    if low < 0 or high > 1:
        hint = (
            "Divide by 255."
            if low >= 0 and 2 < high <= 255
            else "If they are normalised, undo it and wrap the model: shiftproof.Normalized(model, mean, std)."
        )
        raise DataError(
            f"images of {owner!r} run from {low:.3g} to {high:.3g}, "
            f"but eps, sigma and radii are stated for [0, 1]. {hint}"
        )
