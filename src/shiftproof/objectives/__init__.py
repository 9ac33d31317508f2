"""What training minimises, one file an idea. `sp.objectives.ERM`, or by name on the command line."""

from typing import Any

from shiftproof.objectives.objective import OBJECTIVES, Objective, Recipe

__all__ = ["OBJECTIVES", "Objective", "Recipe"]


def __getattr__(name: str) -> Any:
    return OBJECTIVES.class_named(name)


def __dir__() -> list[str]:
    return [*__all__, *(entry.cls.__name__ for entry in OBJECTIVES)]
