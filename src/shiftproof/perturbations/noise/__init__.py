"""What smoothing draws, one file a noise: `noise.Gaussian(0.25)`, or by name: `as_noise("rotation:0.5")`."""

from typing import Any

from shiftproof.perturbations.noise.noise import NOISES, Noise, NoiseOption, as_noise, draw, label

__all__ = ["NOISES", "Noise", "NoiseOption", "as_noise", "draw", "label"]


def __getattr__(name: str) -> Any:
    return NOISES.class_named(name)


def __dir__() -> list[str]:
    return [*__all__, *(entry.cls.__name__ for entry in NOISES)]
