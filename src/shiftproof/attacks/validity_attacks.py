"""The attacks that a model is examined with: good ones, and poor ones that should not find more."""

from __future__ import annotations

from shiftproof.attacks.apgd import APGD
from shiftproof.attacks.contract import Attack
from shiftproof.attacks.pgd import PGD
from shiftproof.attacks.square import Square
from shiftproof.perturbations.threat import Threat

__all__ = ["STEPS", "poor_attacks", "strong_attacks", "validity_passes"]

STEPS = 40
_TARGETS, _QUERIES = 3, 400
_SMALLER = (0.5, 0.8)


def strong_attacks(threat: Threat) -> list[Attack]:
    """Many steps up the loss, and towards the nearest classes."""
    return [APGD(threat, STEPS), APGD(threat, STEPS, "margin", targets=_TARGETS)]


def poor_attacks(threat: Threat) -> dict[str, Attack]:
    """By what they are called."""
    return {
        "one step": PGD(threat, 1, threat.eps, random_start=False),
        # steps so short that they follow a rugged surface
        "plain steps": PGD(threat, 2 * STEPS, threat.eps / 10, loss="margin", restarts=2, early_exit=True),
        "black box": Square(threat, _QUERIES),
        **{f"{STEPS} steps at {part:g} of the size": APGD(threat.at(part * threat.eps), STEPS) for part in _SMALLER},
    }


def validity_passes(threat: Threat) -> int:
    """Steps of all attacks of an examination within a threat, at most; that of the study is not counted."""
    strong = strong_attacks(threat)
    # the last of them also climbs logits inside the model, and plain steps go without a bound by two losses
    besides = strong[-1].passes + 2 * STEPS
    return sum(one.passes for one in [*strong, *poor_attacks(threat).values()]) + besides
