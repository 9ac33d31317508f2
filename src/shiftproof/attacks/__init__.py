"""The worst inside a ball: attacks on classifiers, smoothed ones included. `sp.attacks.PGD`."""

from typing import Any

from shiftproof.attacks.attack import ATTACKS, Attack, AttackResult, attack, craft
from shiftproof.attacks.victim import Base, Smoothed, Victim

__all__ = ["ATTACKS", "Attack", "AttackResult", "Base", "Smoothed", "Victim", "attack", "craft"]


def __getattr__(name: str) -> Any:
    return ATTACKS.class_named(name)


def __dir__() -> list[str]:
    return [*__all__, *(entry.cls.__name__ for entry in ATTACKS)]
