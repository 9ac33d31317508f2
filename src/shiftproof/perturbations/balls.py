"""Threats of every kind, by their text."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import PlainValidator

from shiftproof.errors import UnknownName
from shiftproof.perturbations.deformation import Deformation, deformations
from shiftproof.perturbations.edits import Edits
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.threat import Ball, Norm, Threat, as_threat

__all__ = ["AdditiveOption", "as_additive", "as_ball"]

_EMBEDDING = [f"embedding-{norm}" for norm in get_args(Norm)]


def as_ball(value: object) -> Ball:
    """The threat that is meant by a text, or a threat itself.

    Changes of pixels ('linf:8/255'), deformations ('rotation:0.3'), edits of words ('edits:3'), changes of embedded
    tokens ('embedding-l2:1.0').
    """
    if isinstance(value, Ball) and not isinstance(value, Threat):
        return value
    if isinstance(value, str):
        kind, colon, _ = value.partition(":")
        name = kind.partition(",")[0].strip()
        if name in deformations():
            return Deformation.parse(value)
        if name == "edits":
            return Edits.parse(value)
        if name in _EMBEDDING:
            return EmbeddingThreat.parse(value)
        if colon and name not in get_args(Norm):
            raise UnknownName("norm or deformation", name, [*get_args(Norm), *deformations(), "edits", *_EMBEDDING])
    return as_threat(value)


def as_additive(value: object) -> Threat | EmbeddingThreat:
    """The threat of a change that is added, to pixels ('linf:8/255') or to embedded tokens ('embedding-l2:1.0')."""
    if isinstance(value, EmbeddingThreat):
        return value
    if isinstance(value, str) and value.partition(":")[0].partition(",")[0].strip() in _EMBEDDING:
        return EmbeddingThreat.parse(value)
    return as_threat(value)


AdditiveOption = Annotated[Threat | EmbeddingThreat, PlainValidator(as_additive)]
"""A field of a method that takes a threat in any form that `as_additive` reads."""
