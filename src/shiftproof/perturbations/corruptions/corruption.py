"""The contract of a corruption: what is drawn for a sample, and what it then does to it, at five severities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Interval
from torch import Tensor

from shiftproof.catalogue import Catalogue, Method

__all__ = ["CORRUPTIONS", "Constants", "Corruption", "Published", "constants_for", "group_of"]

Severity = Annotated[int, Interval(ge=1, le=5)]
Constants = Literal["auto", "cifar", "imagenet"]
Published = Mapping[str, Sequence[Any]]

_LARGEST_CIFAR = 48


def constants_for(shape: Sequence[int], constants: Constants = "auto") -> Literal["cifar", "imagenet"]:
    """Whose published constants images of a shape (... x H x W) get: `auto` takes ImageNet-C's above 48 pixels.

    >>> constants_for((3, 32, 32)), constants_for((3, 32, 64))
    ('cifar', 'imagenet')
    """
    if constants != "auto":
        return constants
    return "cifar" if max(shape[-2:]) <= _LARGEST_CIFAR else "imagenet"


@dataclass(frozen=True)
class Corruption(Method, ABC):
    """Base of all corruptions: a frozen dataclass of how badly an image is spoiled; of text it is `TextCorruption`.

    The result depends on the sample and its own draws only. Hendrycks & Dietterich, "Benchmarking neural network
    robustness to common corruptions and perturbations" (2019, arXiv:1903.12261).
    """

    severity: Severity
    constants: Constants = "auto"

    kind: ClassVar[str] = "image"
    """What it changes: image | text."""
    published: ClassVar[Published]
    """For cifar and for imagenet: the figures of the five severities."""

    def figures(self, shape: Sequence[int]) -> Any:
        """The published figures of this severity for images of a shape."""
        return self.published[constants_for(shape, self.constants)][self.severity - 1]

    def size(self, shape: tuple[int, ...]) -> int:
        """How many random words of 32 bits are drawn for one sample of this shape (C x H x W for images)."""
        return 0

    @abstractmethod
    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The images (N x C x H x W, float32 in [0, 1]), each with its row of `words` (N x size); not clipped yet."""


CORRUPTIONS: Catalogue[Corruption] = Catalogue("corruption", "shiftproof.perturbations.corruptions", base=Corruption)


def group_of(corruption: str) -> str:
    """The group of a corruption by its name; those of plug-ins that name none are extra.

    >>> group_of("fog")
    'weather'
    """
    return CORRUPTIONS[corruption].metadata.get("group", "extra")
