"""Which attack is meant where only a threat is named."""

from __future__ import annotations

from shiftproof.perturbations.threat import Ball

__all__ = ["usual_attack"]


def usual_attack(threat: Ball) -> str:
    """The name of the attack for a kind of threat: pgd for changes of pixels.

    >>> from shiftproof.perturbations.balls import as_ball
    >>> usual_attack(as_ball("edits:3")), usual_attack(as_ball("embedding-l2:1.0"))
    ('word-edits', 'embedding-pgd')
    """
    return threat.usual_attack
