"""Which attack is meant where only a threat is named."""

from __future__ import annotations

from shiftproof.perturbations.deformation import Deformation
from shiftproof.perturbations.edits import Edits
from shiftproof.perturbations.threat import Ball

__all__ = ["usual_attack"]

_USUAL: dict[type[Ball], str] = {Deformation: "spatial", Edits: "word-edits"}


def usual_attack(threat: Ball) -> str:
    """The name of the attack for a kind of threat: pgd for changes of pixels.

    >>> usual_attack(Edits(3))
    'word-edits'
    """
    return _USUAL.get(type(threat), "pgd")
