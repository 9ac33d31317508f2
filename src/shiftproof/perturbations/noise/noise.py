"""The contract of a noise: what is drawn, what it does to an input, and how far the majority vote then holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import PlainValidator
from torch import Tensor

from shiftproof.catalogue import Catalogue, options_of
from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["NOISES", "Law", "Noise", "NoiseOption", "as_noise", "as_record", "draw", "label"]

Law = Literal["normal", "uniform"]


@runtime_checkable
class Noise(Protocol):
    """A frozen dataclass of the scale of a noise; votes under it certify a radius in its norm and units."""

    @property
    def law(self) -> Law:
        """Standard draws are normal with variance 1, or uniform between -1 and 1."""

    @property
    def norm(self) -> str:
        """In which the radius is measured."""

    @property
    def units(self) -> str:
        """Of the radius."""

    @property
    def additive(self) -> bool:
        """Whether the noise is added to the input itself; otherwise it moves the parameters of a deformation."""

    @property
    def scale(self) -> float:
        """How much of a parameter one unit of a standard draw is."""

    @property
    def claim(self) -> str:
        """Against what the prediction holds, as a part of a sentence."""

    def size(self, shape: tuple[int, ...]) -> int:
        """How many numbers are drawn for one input of this shape."""

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Each of N images (or one for all) with its row of `parameters` (N x size), which are scaled already."""

    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        """The radius below which the vote keeps its class; 0 or less where nothing can be said.

        `miss` bounds the probability of all other classes together from above, `rival` that of the likeliest of them.
        Small probabilities, so that a vote near 1 loses no digits.
        """


NOISES: Catalogue[Noise] = Catalogue("noise", "shiftproof.perturbations.noise")


def draw(noise: Noise, shape: tuple[int, ...], count: int, generator: np.random.Generator) -> FloatArray:
    """Standard draws (count x size) for inputs of a shape; drawn in pieces, one after the other, they are the same."""
    size = (count, noise.size(shape))
    return generator.standard_normal(size) if noise.law == "normal" else generator.uniform(-1, 1, size)


def as_noise(value: object) -> Noise:
    """The noise that is meant by a name with its first option, a mapping with a name and options, or a noise.

    >>> as_noise("rotation:0.5")
    Rotation(sigma=0.5)
    >>> as_noise({"name": "dct", "sigma": 0.1, "k": 3})
    DCT(sigma=0.1, k=3)
    """
    if isinstance(value, Noise) and not isinstance(value, type):
        return value
    if isinstance(value, str):
        name, given, first = value.partition(":")
        if not given:
            return NOISES.create(name)
        return NOISES.create(name, {next(iter(NOISES[name].options), "value"): first})
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return NOISES.create(value["name"], {key: option for key, option in value.items() if key != "name"})
    seen = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
    raise UsageError(f"{seen} is no noise; write one as 'rotation:0.5' or {{name: rotation, sigma: 0.5}}")


def as_record(noise: Noise) -> dict[str, Any]:
    """The mapping from which `as_noise` makes the noise again; it fits into JSON.

    >>> as_record(as_noise("rotation:0.5"))
    {'name': 'rotation', 'sigma': 0.5}
    """
    return {"name": NOISES.name_of(noise), **{option: getattr(noise, option) for option in options_of(type(noise))}}


def label(noise: Noise) -> str:
    """The noise in a word and its numbers, for tables and legends.

    >>> label(as_noise("scaling:0.5"))
    'scaling 0.5'
    """
    record = as_record(noise)
    options = [key if value is True else str(value) for key, value in record.items() if key != "name" and value]
    return " ".join([record["name"], *options])


NoiseOption = Annotated[Noise, PlainValidator(as_noise)]
"""A field of a method that takes a noise in any form that `as_noise` reads."""
