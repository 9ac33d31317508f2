"""What an adversary may do to an input: anything within a ball around it. Functions take a radius a sample, too."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, get_args

import numpy as np
import torch
from pydantic import PlainValidator
from torch import Tensor

from shiftproof.errors import UnknownName, UsageError
from shiftproof.perturbations.norms import ORDERS, Norm
from shiftproof.types import TextValue

__all__ = [
    "LARGEST_EPS",
    "Ball",
    "Norm",
    "Threat",
    "ThreatOption",
    "as_threat",
    "eps_text",
    "inside",
    "parse_eps",
    "project",
    "random_start",
    "random_surface",
    "size",
    "size_text",
    "steepest",
]

TOLERANCE = 1e-5
"""Relative, of a distance from the centre of a ball."""
# half of the distance between two float32 numbers just below 1, where an input plus a change is rounded
_ROUNDING = 2.0**-25
LARGEST_EPS = 1e18
"""What float32 can add and square."""


class Ball(TextValue):
    """Base of what an adversary may do and how far: to pixels (`Threat`), by a deformation, to words, to embeddings."""

    usual_attack: ClassVar[str] = "pgd"
    """The name of the attack that is meant where only such a threat is named."""

    # fields of some and properties of others; a property that exists at run time would become the field's default
    if TYPE_CHECKING:

        @property
        def kind(self) -> str:
            """What is limited: the norm of a change, or a deformation."""

        @property
        def norm(self) -> str:
            """In which `eps` is measured."""

        @property
        def eps(self) -> float:
            """How far."""

    @property
    @abstractmethod
    def units(self) -> str:
        """Of `eps`."""

    @abstractmethod
    def at(self, eps: float) -> Ball:
        """The same with another size."""


@dataclass(frozen=True)
class Threat(Ball):
    """Every change of an input whose norm is at most `eps`; for images, in pixel values in [0, 1].

    >>> Threat.parse("linf:8/255")
    Threat(norm='linf', eps=0.03137254901960784)
    """

    norm: Norm
    eps: float

    def __post_init__(self) -> None:
        if self.norm not in get_args(Norm):
            _refuse_text(self.norm, self.eps)
            raise UnknownName("norm", str(self.norm), get_args(Norm))
        number = isinstance(self.eps, int | float | np.number) and not isinstance(self.eps, bool)
        if not (number and 0 <= self.eps < math.inf):
            raise UsageError(f"eps is {self.eps!r}; it should be a finite number of at least 0")
        if self.eps > LARGEST_EPS:
            raise UsageError(
                f"eps is {self.eps:g}; float32 can't add changes above {LARGEST_EPS:g}: write a smaller one"
            )
        object.__setattr__(self, "eps", float(self.eps))

    @classmethod
    def parse(cls, text: str) -> Threat:
        """From text such as 'l2:0.5' or 'linf:8/255'."""
        norm, colon, eps = text.partition(":")
        if not colon:
            raise UsageError(f"the threat is {text!r}; write a norm and a size, such as linf:8/255")
        return cls(norm.strip(), parse_eps(eps))  # type: ignore[arg-type]

    @property
    def kind(self) -> str:
        """What is limited: for changes of pixels, their norm."""
        return self.norm

    @property
    def units(self) -> str:
        """Of `eps`."""
        return "pixel values in [0, 1]"

    def at(self, eps: float) -> Threat:
        """The same with another size."""
        return Threat(self.norm, eps)

    @property
    def spec(self) -> str:
        """The text that `parse` reads."""
        return f"{self.norm}:{self.eps!r}"

    def __str__(self) -> str:
        return f"{self.norm} {eps_text(self.eps, self.norm)}"

    def project(self, delta: Tensor) -> Tensor:
        """The nearest changes inside the ball (N x ...)."""
        return project(delta, self.norm, self.eps)

    def random_start(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Changes that are uniform in the ball, of a shape N x ..."""
        return random_start(shape, self.norm, self.eps, generator)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The changes of norm 1 that gain most along each gradient (N x ...)."""
        return steepest(gradient, self.norm)

    def size(self, delta: Tensor) -> Tensor:
        """The norms (N) of changes (N x ...)."""
        return size(delta, self.norm)


def _refuse_text(norm: object, eps: object) -> None:
    """Say how a threat to text is written, to whoever asks for one here."""
    kinds = {"edits": "WordEdits", **{f"embedding-{one}": "EmbeddingPGD" for one in get_args(Norm)}}
    if isinstance(norm, str) and norm in kinds:
        text = f"{norm}:{eps:g}" if norm == "edits" and isinstance(eps, int | float) else f"{norm}:{eps}"
        raise UsageError(
            f"Threat is for changes of pixels, and {norm!r} is a change of text: write it as the text {text!r}, "
            f"such as sp.attacks.{kinds[norm]}({text!r})"
        )


def as_threat(value: object) -> Threat:
    """The threat that is meant by a text such as 'linf:8/255', or a threat."""
    if isinstance(value, Threat):
        return value
    if isinstance(value, str):
        return Threat.parse(value)
    if isinstance(value, Ball):
        raise UsageError(
            f"this attack changes pixels (l2, linf, l1); for {value} use {value.usual_attack} "
            f"(--attack {value.usual_attack})"
        )
    raise UsageError(f"the threat is {value!r}; write one as 'linf:8/255' or Threat('linf', 8 / 255)")


ThreatOption = Annotated[Threat, PlainValidator(as_threat)]
"""A field of a method that takes a threat in any form that `as_threat` reads."""


def parse_eps(text: str) -> float:
    """A number, or a fraction such as 8/255."""
    numerator, slash, denominator = text.partition("/")
    try:
        return float(numerator) / (float(denominator) if slash else 1.0)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError(f"eps is {text!r}; it should be a number such as 0.03, or a fraction such as 8/255") from error


def eps_text(eps: float, norm: str = "linf") -> str:
    """A size as people write it: in linf in 255ths, where it is a whole number of them and no short decimal.

    >>> eps_text(8 / 255), eps_text(0.2), eps_text(8 / 255, "l2")
    ('8/255', '0.2', '0.0313725')
    """
    short, levels = float(f"{eps:.4g}") == eps, 255 * eps
    whole = norm == "linf" and 0 < levels < 255 and abs(levels - round(levels)) < 1e-9
    return f"{round(levels)}/255" if whole and not short else f"{eps:g}"


def size_text(eps: float, norm: str) -> str:
    """A size with its norm, or as a number of edits.

    >>> size_text(8 / 255, "linf"), size_text(1, "edits"), size_text(3, "edits")
    ('linf 8/255', '1 edit', '3 edits')
    """
    if norm == "edits":
        return f"{eps:g} {'edit' if eps == 1 else 'edits'}"
    return f"{norm} {eps_text(eps, norm)}"


def size(delta: Tensor, norm: Norm) -> Tensor:
    """The norms (N, in double precision) of changes (N x ...)."""
    sizes: Tensor = torch.linalg.vector_norm(delta.flatten(1).double(), ORDERS[norm], dim=1)
    return sizes


def inside(delta: Tensor, norm: Norm, eps: float | Tensor) -> Tensor:
    """Whether each change (N x ...) is in its ball, but for rounding."""
    rounding = size(torch.full_like(delta[:1], _ROUNDING), norm)
    allowed = _radii(eps, delta.double())
    within: Tensor = size(delta, norm) <= allowed.flatten() * (1 + TOLERANCE) + rounding
    return within


def project(delta: Tensor, norm: Norm, eps: float | Tensor) -> Tensor:
    """The nearest changes, in Euclidean distance, inside balls of radius `eps`: one for all, or N of them.

    >>> project(torch.tensor([[3.0, 4.0]]), "l2", 1.0), project(torch.tensor([[0.9, -0.3]]), "l1", 1.0)
    (tensor([[0.6000, 0.8000]]), tensor([[ 0.8000, -0.2000]]))
    """
    radii = _radii(eps, delta)
    if norm == "linf":
        return torch.maximum(torch.minimum(delta, radii), -radii)
    if norm == "l2":
        sizes = _radii(size(delta, "l2"), delta)
        smallest = torch.finfo(delta.dtype).tiny
        return delta * (radii / sizes.clamp(min=smallest)).clamp(max=1)
    return _project_l1(delta, radii)


def _project_l1(delta: Tensor, radii: Tensor) -> Tensor:
    """By sorting: what is too much is taken off all the numbers that stay above 0, equally.

    Duchi et al., "Efficient projections onto the l1-ball for learning in high dimensions" (2008,
    doi:10.1145/1390156.1390191).
    """
    sizes = delta.flatten(1).abs().double()
    falling = sizes.sort(dim=1, descending=True).values
    excess = falling.cumsum(1) - radii.flatten(1).double()
    ranks = torch.arange(1, falling.shape[1] + 1, device=delta.device, dtype=torch.float64)
    staying = (falling * ranks > excess).sum(1, keepdim=True).clamp(min=1)
    threshold = (excess.gather(1, staying - 1) / staying).clamp(min=0)
    shrunk = (sizes - threshold).clamp(min=0).to(delta.dtype).reshape(delta.shape)
    return delta.sign() * shrunk


def random_start(shape: tuple[int, ...], norm: Norm, eps: float | Tensor, generator: torch.Generator) -> Tensor:
    """Changes of a shape N x ... that are uniform in balls of radius `eps`: one for all, or N of them."""
    if norm == "linf":
        unit = 2 * torch.rand(shape, generator=generator) - 1
    else:
        height = torch.rand(shape[0], generator=generator) ** (1 / math.prod(shape[1:]))
        unit = random_surface(shape, norm, 1.0, generator)
        unit = unit * _radii(height, unit)
    return unit * _radii(eps, unit)


def random_surface(shape: tuple[int, ...], norm: Norm, eps: float | Tensor, generator: torch.Generator) -> Tensor:
    """Changes of a shape N x ... on the surface of the balls: uniform there in l2 and l1, at a corner in linf."""
    if norm == "l2":
        points = torch.randn(shape, generator=generator)
    else:
        points = 2.0 * torch.randint(0, 2, shape, generator=generator) - 1
        if norm == "l1":
            points *= torch.empty_like(points).exponential_(generator=generator)
    points = points / _radii(size(points, norm), points)
    return points * _radii(eps, points)


def steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """The changes of norm 1 that gain most along each gradient (N x ...); nothing where the gradient is 0.

    >>> steepest(torch.tensor([[3.0, -4.0], [0.0, 0.0]]), "l1")
    tensor([[ 0., -1.],
            [ 0.,  0.]])
    """
    if norm == "linf":
        return gradient.sign()
    flat = gradient.flatten(1)
    if norm == "l1":
        largest = flat.abs().argmax(1, keepdim=True)
        return torch.zeros_like(flat).scatter(1, largest, flat.gather(1, largest).sign()).reshape(gradient.shape)
    # first by the largest number: the squares of tiny gradients would be 0
    peak = flat.abs().amax(1, keepdim=True)
    scaled = flat / torch.where(peak > 0, peak, 1)
    length = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    unit: Tensor = scaled / length.clamp(min=1)
    return unit.reshape(gradient.shape)


def _radii(eps: float | Tensor, like: Tensor) -> Tensor:
    """One radius for all or one a sample, in a shape that goes with N x ..."""
    return torch.as_tensor(eps, dtype=like.dtype, device=like.device).reshape(-1, *[1] * (like.ndim - 1))
