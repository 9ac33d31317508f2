"""What can be painted on images as a shortcut: a border or a tint in one of two colours."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from shiftproof.domains.inputs import Inputs
from shiftproof.types import IntArray

__all__ = ["Border", "Paint", "PaintedInputs", "Tint"]

_LUMA = (0.299, 0.587, 0.114)


class Paint(Protocol):
    """Gives images (N x 3 x H x W in [0, 1]) one of two looks, and turns one look into the other."""

    def paint(self, images: Tensor, marks: Tensor) -> Tensor:
        """The images with look 0 or 1."""

    def other(self, images: Tensor) -> Tensor:
        """Painted images with the other look, exactly as if they had been painted so."""


@dataclass(frozen=True)
class Border:
    """A frame of `width` pixels over the image's edge, pure red (0) or pure green (1)."""

    width: int

    def paint(self, images: Tensor, marks: Tensor) -> Tensor:
        """With the frame of its colour."""
        colours = torch.eye(3, dtype=images.dtype)[marks]
        return torch.where(self._frame(images), colours[:, :, None, None], images)

    def other(self, images: Tensor) -> Tensor:
        """With red and green of the frame exchanged."""
        return torch.where(self._frame(images), images[:, [1, 0, 2]], images)

    def _frame(self, images: Tensor) -> Tensor:
        frame = torch.ones(images.shape[-2:], dtype=torch.bool)
        frame[self.width : -self.width, self.width : -self.width] = False
        return frame


@dataclass(frozen=True)
class Tint:
    """The image in shades of gray, seen through a glass that halves blue (0, warm) or red (1, cool).

    Its own colours are given up so that the twin in the other tint can be computed: red and blue change places.
    """

    def paint(self, images: Tensor, marks: Tensor) -> Tensor:
        """In shades of its tint."""
        gray = (images * images.new_tensor(_LUMA)[:, None, None]).sum(1, keepdim=True).clamp(0, 1)
        glass = images.new_tensor([[1.0, 1.0, 0.5], [0.5, 1.0, 1.0]])[marks]
        return gray * glass[:, :, None, None]

    def other(self, images: Tensor) -> Tensor:
        """With red and blue exchanged."""
        return images.flip(1)


class PaintedInputs:
    """Images of another `Inputs`, painted when they are taken; `marks` says with which look."""

    kind = "image"

    def __init__(self, base: Inputs, marks: IntArray, paint: Paint) -> None:
        self._base, self._marks, self._paint = base, marks, paint

    @property
    def shape(self) -> tuple[int, ...]:
        return self._base.shape

    @property
    def in_memory(self) -> bool:
        return self._base.in_memory

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.blake2b(f"{self._base.fingerprint} {self._paint!r}".encode(), digest_size=16)
        digest.update(self._marks.tobytes())
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._base)

    def take(self, indices: IntArray) -> Tensor:
        return self._paint.paint(self._base.take(indices), torch.from_numpy(self._marks[indices]))

    def prepare(self, indices: IntArray | None = None) -> None:
        self._base.prepare(indices)

    def narrow(self, indices: IntArray) -> PaintedInputs:
        return PaintedInputs(self._base.narrow(indices), self._marks[indices], self._paint)
