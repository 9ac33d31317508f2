"""What an adversary may do to a text by changing its words: a number of edits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import PlainValidator

from shiftproof.errors import UsageError
from shiftproof.perturbations.threat import Ball, parse_eps, size_text
from shiftproof.types import FloatArray

__all__ = ["Edits", "EditsOption", "as_edits", "edit_distance", "readable_radii"]


@dataclass(frozen=True)
class Edits(Ball):
    """Every text within `eps` insertions, deletions or replacements of words, which are what white space separates.

    >>> Edits.parse("edits:3")
    Edits(eps=3.0)
    """

    eps: float

    usual_attack: ClassVar[str] = "word-edits"
    kind: ClassVar[str] = "edits"
    norm: ClassVar[str] = "edits"
    units: ClassVar[str] = "words inserted, deleted or replaced"

    def __post_init__(self) -> None:
        number = isinstance(self.eps, int | float) and not isinstance(self.eps, bool)
        if not (number and 0 <= self.eps < math.inf and self.eps == int(self.eps)):
            raise UsageError(f"the number of edits is {self.eps!r}; it should be a whole number, such as edits:3")
        object.__setattr__(self, "eps", float(self.eps))

    @classmethod
    def parse(cls, text: str) -> Edits:
        """From text such as 'edits:3'."""
        kind, colon, eps = text.partition(":")
        if not colon or kind.strip() != "edits":
            raise UsageError(f"the threat is {text!r}; write the number of word edits, such as edits:3")
        return cls(parse_eps(eps))

    @property
    def spec(self) -> str:
        """The text that `parse` reads."""
        return f"edits:{self.eps:g}"

    def __str__(self) -> str:
        return size_text(self.eps, self.norm)

    def at(self, eps: float) -> Edits:
        """The same with another number."""
        return Edits(eps)


def as_edits(value: object) -> Edits:
    """The threat that is meant by a text such as 'edits:3', or one."""
    if isinstance(value, Edits):
        return value
    if isinstance(value, str):
        return Edits.parse(value)
    raise UsageError(f"the threat is {value!r}; this attack edits words: write it as 'edits:3'")


EditsOption = Annotated[Edits, PlainValidator(as_edits)]
"""A field of a method that takes a number of edits in any form that `as_edits` reads."""


def readable_radii(radii: FloatArray, norm: str) -> FloatArray:
    """Radii as people read them: of edits how many are certified, in any other norm as they are.

    A certificate of k edits has a radius a little above k, because a guarantee holds below its radius.

    >>> readable_radii(np.array([0.0001, 2.0001]), "edits")
    array([0., 2.])
    """
    return np.floor(radii) if norm == Edits.norm else radii


def edit_distance(one: list[str], other: list[str]) -> int:
    """The fewest insertions, deletions and replacements of words between two lists of them.

    >>> edit_distance("a good film".split(), "a very bad film".split())
    2
    """
    row = list(range(len(other) + 1))
    for i, word in enumerate(one, 1):
        corner, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (word != wanted))
    return row[-1]
