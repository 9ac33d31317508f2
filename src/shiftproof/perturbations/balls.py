"""Threats of every kind, by their text."""

from __future__ import annotations

from typing import get_args

from shiftproof.errors import UnknownName
from shiftproof.perturbations.deformation import Deformation, deformations
from shiftproof.perturbations.edits import Edits
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.threat import Ball, Norm, Threat, as_threat

__all__ = ["as_ball"]

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
