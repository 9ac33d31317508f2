"""The worst inside a ball: attacks on classifiers, smoothed ones included. `sp.attacks.PGD`."""

from typing import Any

from shiftproof.attacks.attack import ATTACKS, Attack, attack, craft, overturn
from shiftproof.attacks.input_search import search_inputs
from shiftproof.attacks.representation import adversarial_representation
from shiftproof.attacks.result import AttackResult, Found
from shiftproof.attacks.victim import Base, Smoothed, Victim

__all__ = [
    "ATTACKS",
    "Attack",
    "AttackResult",
    "Base",
    "Found",
    "Smoothed",
    "Victim",
    "adversarial_representation",
    "attack",
    "craft",
    "overturn",
    "search_inputs",
]


def __getattr__(name: str) -> Any:
    return ATTACKS.class_named(name)


def __dir__() -> list[str]:
    return [*__all__, *(entry.cls.__name__ for entry in ATTACKS)]
