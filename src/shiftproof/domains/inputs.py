"""Where a domain's pixels come from: arrays in memory, or files decoded when they are asked for."""

from __future__ import annotations

import hashlib
from copy import copy
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.errors import DataError
from shiftproof.types import IntArray

__all__ = ["ArrayInputs", "Inputs", "SubsetInputs", "original_of"]


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

    def prepare(self, indices: IntArray | None = None) -> None:
        """Read all samples, or those at `indices`, now if they fit in memory: an unreadable file is found at once."""

    def narrow(self, indices: IntArray) -> Inputs:
        """Inputs that hold the samples at `indices` and no others: what is sent to another process."""


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

    def prepare(self, indices: IntArray | None = None) -> None:
        """Nothing to do: everything is in memory."""

    def narrow(self, indices: IntArray) -> ArrayInputs:
        # checked as they are
        narrowed = copy(self)
        narrowed.__dict__.pop("fingerprint", None)
        narrowed._values = self._values[torch.from_numpy(indices)]
        return narrowed


class SubsetInputs:
    """Some samples of another `Inputs`, without copying them; to another process, only these are sent."""

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

    def __getstate__(self) -> dict[str, Any]:
        # the fingerprint is one of all the others, too, which stay here
        narrow = {"_base": self._base.narrow(self._indices), "_indices": np.arange(len(self))}
        return {**narrow, "fingerprint": self.fingerprint}

    def take(self, indices: IntArray) -> Tensor:
        return self._base.take(self._indices[indices])

    def origin(self, indices: IntArray) -> tuple[Inputs, IntArray]:
        """Where the samples at `indices` come from: the other inputs, and their numbers there."""
        return self._base, self._indices[indices]

    def prepare(self, indices: IntArray | None = None) -> None:
        self._base.prepare(self._indices if indices is None else self._indices[indices])

    def narrow(self, indices: IntArray) -> Inputs:
        return self._base.narrow(self._indices[indices])


def original_of(inputs: Inputs, indices: IntArray) -> tuple[Inputs, IntArray]:
    """The inputs that samples at `indices` come from, and their numbers there."""
    while isinstance(inputs, SubsetInputs):
        inputs, indices = inputs.origin(indices)
    return inputs, indices


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
