"""Images that shape a classifier before it is certified, and are never certified themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import PlainValidator
from torch import Tensor

from shiftproof.domains import Domain, Domains
from shiftproof.errors import DataError, UsageError
from shiftproof.types import IntArray, TextValue

__all__ = ["Calibration", "CalibrationOption", "calibration_images"]


@dataclass(frozen=True)
class Calibration(TextValue):
    """Frozen images (N x shape in [0, 1]), with labels where something is chosen by them; told apart by their hash."""

    name: str
    hash: str
    inputs: Tensor = field(repr=False, compare=False)
    labels: IntArray | None = field(default=None, repr=False, compare=False)

    @property
    def spec(self) -> str:
        """Name and hash: what tells these images from others. Images themselves do not fit into a text."""
        return f"{self.name} ({self.hash})"

    @classmethod
    def of(cls, images: Domain | Domains | Tensor, count: int | None = None) -> Calibration:
        """From a domain, several or a tensor; at most `count` images, evenly spaced."""
        if count is not None and count < 2:
            raise UsageError(f"{count} calibration images are too few: a variance needs two")
        if isinstance(images, Tensor):
            # the same checks as for any data: shape, range, numbers
            checked = Domain.from_arrays("calibration", images, np.zeros(len(images), np.int64), ["any"]).tensors()[0]
            return cls._from_inputs("tensor", _take_evenly(checked, count), None)
        if not isinstance(images, Domain | Domains):
            raise UsageError(
                f"calibration images are {type(images).__name__}; they should be a domain or a tensor of images"
            )
        members: Sequence[Domain] = list(images) if isinstance(images, Domains) else [images]
        name, ends = ", ".join(domain.name for domain in members), np.cumsum([0, *map(len, members)])
        chosen = _evenly_spaced(int(ends[-1]), count)
        # of a million images, those that are taken are read
        taken = [
            domain.take(chosen[(chosen >= a) & (chosen < b)] - a)
            for domain, (a, b) in zip(members, pairwise(ends), strict=True)
        ]
        inputs, labels = (torch.cat(parts) for parts in zip(*taken, strict=True))
        return cls._from_inputs(name, inputs, labels.numpy())

    @classmethod
    def _from_inputs(cls, name: str, inputs: Tensor, labels: IntArray | None) -> Calibration:
        digest = hashlib.blake2b(inputs.contiguous().float().numpy().tobytes(), digest_size=8)
        return cls(f"{len(inputs)} images of {name}", digest.hexdigest(), inputs.float(), labels)

    def check_apart(self, domain: Domain) -> None:
        """Refuse a domain of which an image is among these."""
        if tuple(self.inputs.shape[1:]) != domain.shape:
            raise UsageError(
                f"calibration images are {tuple(self.inputs.shape[1:])}, those of {domain.name} {domain.shape}"
            )
        known = set(_keys(self.inputs))
        for block in domain.blocks:
            for place, key in zip(block, _keys(domain.take(block)[0]), strict=True):
                if key in known:
                    raise UsageError(
                        f"image {domain.ids[place]!r} of {domain.name} is certified and among the calibration images; "
                        "a classifier must not depend on what it is certified on. Use training images for calibration, "
                        "and measure those that are held out (--split held-out)"
                    )


def _as_calibration(value: Any) -> int | Calibration:
    if isinstance(value, Calibration):
        return value
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 2 or isinstance(value, bool):
        raise UsageError(
            f"calibration is {value!r}; it should be Calibration.of(images), or how many training images to take"
        )
    return count


CalibrationOption = Annotated[Any, PlainValidator(_as_calibration)]
"""A field that takes calibration images, or how many of the training images to take."""


def calibration_images(option: int | Calibration, pool: Domains | Domain | None) -> Calibration:
    """The images themselves: those of the option, or so many of the job's pool."""
    if isinstance(option, Calibration):
        return option
    if pool is None:
        raise DataError(
            "there are no calibration images: name domains with --calibration (in Python give Calibration.of(images)), "
            "or take a model and data of which the training domains are known"
        )
    return Calibration.of(pool, option)


def _take_evenly(images: Tensor, count: int | None) -> Tensor:
    return images[torch.from_numpy(_evenly_spaced(len(images), count))]


def _evenly_spaced(n: int, count: int | None) -> IntArray:
    return np.arange(n) if count is None or count >= n else np.linspace(0, n - 1, count, dtype=np.int64)


def _keys(images: Tensor) -> list[bytes]:
    """Images to the nearest of 65,280 levels: rounding does not make another image."""
    return [one.tobytes() for one in torch.round(images.double() * 65_280).to(torch.int32).numpy()]
