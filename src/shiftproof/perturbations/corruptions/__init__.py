"""What nature does to images, at five severities: `corrupt(images, "fog", 3)`."""

from typing import Any

from shiftproof.perturbations.corruptions.corrupt import corrupt
from shiftproof.perturbations.corruptions.corruption import (
    CORRUPTIONS,
    EXTRA,
    STANDARD,
    Constants,
    Corruption,
    constants_for,
)

__all__ = ["CORRUPTIONS", "EXTRA", "STANDARD", "Constants", "Corruption", "constants_for", "corrupt"]


def __getattr__(name: str) -> Any:
    return CORRUPTIONS.class_named(name)


def __dir__() -> list[str]:
    return [*__all__, *(entry.cls.__name__ for entry in CORRUPTIONS)]
