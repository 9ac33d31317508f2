"""The contract of a noise: what is drawn, what it does to an input, and how far the majority vote then holds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from annotated_types import Interval
from pydantic import PlainValidator
from torch import Tensor

from shiftproof.catalogue import Catalogue, Method
from shiftproof.errors import UsageError
from shiftproof.types import FloatArray

__all__ = ["NOISES", "Law", "Noise", "NoiseOption", "Scale", "as_noise", "check_kind", "draw", "label"]

Law = Literal["normal", "uniform"]
Scale = Annotated[float, Interval(gt=0, lt=math.inf)]
"""The scale of a noise: a finite number above 0."""


class Noise(Method, ABC):
    """Base of all noises: a frozen dataclass whose first option is a scale; votes under it certify a radius.

    Unless a noise says otherwise, its draws are normal and added to the input. One that deforms images sets `additive`
    to False and has its own `size`, `apply` and `claim`.
    """

    kind: ClassVar[str] = "image"
    """What it changes: image | text."""
    usual: ClassVar[float] = 0.25
    """Its first option, where that is not told."""
    law: ClassVar[Law] = "normal"
    """Standard draws are normal with variance 1, or uniform between -1 and 1."""
    additive: ClassVar[bool] = True
    """Whether the noise is added to the input itself; otherwise it moves the parameters of a deformation."""
    embedded: ClassVar[bool] = False
    """Whether what it changes are the embeddings of a text's tokens (tokens x width), behind a model's first layer."""

    @property
    @abstractmethod
    def norm(self) -> str:
        """In which the radius is measured."""

    @property
    @abstractmethod
    def units(self) -> str:
        """Of the radius."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """How much of a parameter one unit of a standard draw is."""

    @abstractmethod
    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        """The radius below which the vote keeps its class; 0 or less where nothing can be said.

        `miss` bounds the probability of all other classes together from above, `rival` that of the likeliest of them.
        Small probabilities, so that a vote near 1 loses no digits.
        """

    @property
    def cap(self) -> float:
        """What no radius exceeds, however many votes there are."""
        return math.inf

    @property
    def claim(self) -> str:
        """Against what the prediction holds, as a part of a sentence."""
        return f"every change of the input whose {self.norm} norm ({self.units}) is below the radius"

    def size(self, shape: tuple[int, ...]) -> int:
        """How many numbers are drawn for one input of this shape."""
        return math.prod(shape)

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Each of N images (or one for all) with its row of `parameters` (N x size), which are scaled already.

        Nothing is clipped.
        """
        return images + parameters.to(images).reshape(-1, *images.shape[1:])


NOISES: Catalogue[Noise] = Catalogue(
    "noise",
    "shiftproof.perturbations.noise",
    base=Noise,
    example="'rotation:0.5' or {name: rotation, sigma: 0.5}",
)


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
    >>> as_noise("rotation:0.5").to_config()
    {'name': 'rotation', 'sigma': 0.5}
    """
    return NOISES.make(value)


def label(noise: Noise) -> str:
    """The noise in a word and its numbers, for tables and legends.

    >>> label(as_noise("scaling:0.5"))
    'scaling 0.5'
    """
    config = noise.to_config()
    options = [key if value is True else str(value) for key, value in config.items() if key != "name" and value]
    return " ".join([config["name"], *options])


def check_kind(noise: Noise, kind: str, domain: str) -> None:
    """Refuse a noise on images for texts, and one on texts for images; `kind` is that of the samples of a domain."""
    if noise.kind != kind:
        fitting = "word-deletion:0.8" if kind == "text" else "gaussian:0.25"
        raise UsageError(
            f"the noise {label(noise)} changes {noise.kind}s, and {domain!r} holds {kind}s; a noise for these is "
            f"--noise {fitting}"
        )


NoiseOption = Annotated[Noise, PlainValidator(as_noise)]
"""A field of a method that takes a noise in any form that `as_noise` reads."""
