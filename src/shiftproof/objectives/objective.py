"""The contract of an objective, and the recipe that it is trained with unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol

import torch
from torch import nn

from shiftproof.catalogue import Catalogue
from shiftproof.errors import UnknownName, UsageError
from shiftproof.types import Batch, Loss

__all__ = ["OBJECTIVES", "Objective", "Recipe", "Selection"]

Selection = Literal["last", "source-validation"]


@dataclass(frozen=True)
class Recipe:
    """How an objective is trained: optimiser, learning rate, samples of each domain in a step, steps.

    `schedule` scales the learning rate over the steps; every `evaluate_every` steps the validation parts are measured.
    """

    optimiser: str = "adam"
    lr: float = 1e-3
    batch: int = 128
    steps: int = 1_000
    schedule: str = "constant"
    weight_decay: float = 0.0
    momentum: float = 0.9
    evaluate_every: int = 100

    def __post_init__(self) -> None:
        for name in ("lr", "batch", "steps", "evaluate_every"):
            if not getattr(self, name) > 0:
                raise UsageError(f"the recipe's {name} is {getattr(self, name)}; it must be above 0")

    def override(self, changes: Mapping[str, Any]) -> Recipe:
        """The same recipe with some values changed; an unknown name gets a suggestion."""
        known = {item.name: item for item in fields(self)}
        values = {}
        for name, value in changes.items():
            if name not in known:
                raise UnknownName("setting of training:", name, known)
            kind = type(getattr(self, name))
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if type(value) is not kind:
                raise UsageError(f"training.{name} is {value!r}; it should be {_KINDS[kind]}")
            values[name] = value
        return replace(self, **values)


_KINDS = {int: "a whole number", float: "a number", str: "a name"}


class Objective(Protocol):
    """A frozen dataclass with a loss, a default recipe and a default way to select the model."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def selection(self) -> Selection: ...

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of one step; all randomness comes from `generator`, and the order of domains must not matter."""


OBJECTIVES: Catalogue[Objective] = Catalogue("objective", "shiftproof.objectives")
