"""What an adversary may do to an image by moving its pixels: any deformation whose parameters are within a ball."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import PlainValidator
from torch import Tensor

from shiftproof.errors import UnknownName, UsageError
from shiftproof.perturbations.noise import NOISES, Noise
from shiftproof.perturbations.threat import LARGEST_EPS, Ball, Norm, parse_eps, project, size

__all__ = ["Deformation", "DeformationOption", "as_deformation", "deformations"]

_SCALE = 0.5
"""Of the noise that lends its deformation: any will do, and every noise takes this one."""


@dataclass(frozen=True)
class Deformation(Ball):
    """Every deformation of a kind whose parameters have a norm of at most `eps`, by one interpolation of the image.

    Kinds, norms and units are those of the noises that deform: `rotation` (radians), `translation` (half image sizes),
    `scaling` and `scaling,log=true`, `affine`, `dct` and `dct,k=3`.

    >>> Deformation.parse("rotation:0.3")
    Deformation(kind='rotation', eps=0.3)
    >>> Deformation("scaling,log=true", 0.2).units
    'log of the scale factor'
    """

    kind: str
    eps: float

    usual_attack: ClassVar[str] = "spatial"

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", _kind_of(_motion(self.kind)))
        number = isinstance(self.eps, int | float | np.number) and not isinstance(self.eps, bool)
        if not (number and 0 <= self.eps < math.inf):
            raise UsageError(f"eps is {self.eps!r}; it should be a finite number of at least 0")
        if self.eps > LARGEST_EPS:
            raise UsageError(f"eps is {self.eps:g}; float32 can't move pixels by more than {LARGEST_EPS:g}")
        object.__setattr__(self, "eps", float(self.eps))
        if self.norm == "angle" and self.eps > math.pi:
            degrees = f"did you mean {math.radians(self.eps):.4g}, which is {self.eps:g} degrees?"
            raise UsageError(f"eps is {self.eps:g}: angles are in radians, up to pi; {degrees}")
        if self.norm == "factor" and self.eps >= 1:
            raise UsageError(f"eps is {self.eps:g}: a factor 1 - eps should be above 0; see also scaling,log=true")

    @classmethod
    def parse(cls, text: str) -> Deformation:
        """From text such as 'rotation:0.3' or 'dct,k=3:0.1'."""
        kind, colon, eps = text.rpartition(":")
        if not colon:
            raise UsageError(f"the deformation is {text!r}; write a kind and a size, such as rotation:0.3")
        return cls(kind.strip(), parse_eps(eps))

    @classmethod
    def of(cls, noise: Noise, eps: float) -> Deformation:
        """That which certificates of a deforming noise speak of."""
        if noise.additive:
            raise UsageError(
                f"{noise.name} noise changes pixels and deforms nothing; the threat is an l1 or l2 ball then"
            )
        return cls(_kind_of(noise), eps)

    @property
    def norm(self) -> str:
        """In which parameters are measured."""
        return _motion(self.kind).norm

    @property
    def units(self) -> str:
        """Of parameters."""
        return _motion(self.kind).units

    @property
    def spec(self) -> str:
        """The text that `parse` reads."""
        return f"{self.kind}:{self.eps!r}"

    def __str__(self) -> str:
        return f"{self.kind} {self.eps:g}"

    def at(self, eps: float) -> Deformation:
        """The same with another size."""
        return replace(self, eps=eps)

    def matches(self, noise: Noise) -> bool:
        """Whether a noise draws the parameters of this deformation."""
        return not noise.additive and _kind_of(noise) == self.kind

    def parameters(self, shape: tuple[int, ...]) -> int:
        """How many numbers deform an image of this shape."""
        return _motion(self.kind).size(shape)

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Each of N images (or one for all) deformed by its row of `parameters` (N x size)."""
        return _motion(self.kind).apply(images, parameters)

    def size(self, parameters: Tensor) -> Tensor:
        """The norms (N) of parameters (N x size)."""
        return size(parameters, self._order)

    def project(self, parameters: Tensor, eps: Tensor) -> Tensor:
        """The nearest parameters (N x size) within radii (N)."""
        return project(parameters, self._order, eps)

    @property
    def _order(self) -> Norm:
        # an angle or a factor is one number, whose size is the same in every norm
        norm = self.norm
        return norm if norm in ("l1", "l2", "linf") else "linf"  # type: ignore[return-value]


def deformations() -> list[str]:
    """The names of all kinds."""
    return [entry.name for entry in NOISES if not entry.cls.additive and entry.cls.kind == "image"]


def as_deformation(value: object) -> Deformation:
    """The deformation that is meant by a text such as 'rotation:0.3', or a deformation."""
    if isinstance(value, Deformation):
        return value
    if isinstance(value, str):
        return Deformation.parse(value)
    raise UsageError(f"the deformation is {value!r}; write one as 'rotation:0.3' or Deformation('rotation', 0.3)")


DeformationOption = Annotated[Deformation, PlainValidator(as_deformation)]
"""A field of a method that takes a deformation in any form that `as_deformation` reads."""


@lru_cache
def _motion(kind: object) -> Noise:
    """A noise of the kind 'name' or 'name,option=value,...', of which only the deformation is used."""
    name, *changes = (part.strip() for part in str(kind).split(","))
    if name not in deformations():
        raise UnknownName("deformation", name, deformations())
    options: dict[str, Any] = {next(iter(NOISES[name].options)): _SCALE}
    for change in changes:
        option, given, value = change.partition("=")
        if not given:
            raise UsageError(f"{change!r} of {kind!r} is no option; write one as scaling,log=true")
        options[option.strip()] = value.strip()
    return NOISES.create(name, options)


def _kind_of(noise: Noise) -> str:
    """The name of a noise, with those options that are not the usual ones and are not its scale."""
    _, *others = fields(noise)  # type: ignore[arg-type]
    changed = [(item.name, getattr(noise, item.name)) for item in others if getattr(noise, item.name) != item.default]
    return ",".join([NOISES.name_of(noise), *(f"{name}={str(value).lower()}" for name, value in changed)])
