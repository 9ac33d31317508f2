"""What makes two measurements the same one: all that was asked and that can change a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from shiftproof.domains import Domain, Domains
from shiftproof.models.files import fingerprint

__all__ = ["identity_of"]


def identity_of(
    asked: Any,
    model: nn.Module,
    data: Domain | Iterable[Domain],
    *,
    seed: int | None,
    precision: str = "f32",
    backend: str = "torch",
    calibration: Domains | None = None,
) -> dict[str, Any]:
    """The identity of a measurement, in a form that fits into JSON; what was measured is reused only if it is equal.

    `asked` says what is measured and with which options. The model counts by its weights; its behaviour is compared,
    not hashed (`models.behaviour`). `seed` is None where it is drawn for the run and stored in its record.
    """
    places = data.fingerprint if isinstance(data, Domain) else {one.name: one.fingerprint for one in data}
    return {
        "asked": asked,
        "weights": fingerprint(model),
        "data": places,
        "calibration": None if calibration is None else [one.fingerprint for one in calibration],
        "seed": seed,
        "precision": precision,
        "backend": backend,
        "format": 2,
    }
