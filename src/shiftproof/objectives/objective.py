"""The contract of an objective, and the recipe that it is trained with unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

import torch
from annotated_types import Interval
from torch import nn

from shiftproof.catalogue import Catalogue, checked_options
from shiftproof.errors import UsageError
from shiftproof.types import Batch, Loss, NonNegative, Positive

__all__ = ["OBJECTIVES", "Objective", "Outcome", "Part", "Recipe", "Selection"]

Selection = Literal["last", "source-validation", "robust-source-validation"]
Part = Literal["all", "head"]


@dataclass(frozen=True)
class Recipe:
    """How an objective is trained: optimiser, learning rate, samples of each domain in a step, steps.

    `schedule` scales the learning rate over the steps; every `evaluate_every` steps the validation parts are measured.
    With `part` "head" the encoder stays as it is, BatchNorm statistics included.
    """

    optimiser: str = "adam"
    lr: Annotated[float, Interval(gt=0, le=1e30)] = 1e-3
    batch: Annotated[int, Interval(ge=1, le=1_000_000)] = 128
    steps: Positive = 1_000
    schedule: str = "constant"
    weight_decay: NonNegative = 0.0
    momentum: Annotated[float, Interval(ge=0, lt=1)] = 0.9
    evaluate_every: Positive = 100
    part: Part = "all"

    def override(self, changes: Mapping[str, Any]) -> Recipe:
        """The same recipe with some values changed; an unknown name gets a suggestion."""
        if "selection" in changes:
            raise UsageError("selection stands beside training, not in it: --set selection=last")
        return replace(self, **checked_options(Recipe, changes, "training"))


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained model and what it was trained with, for an objective that has something to say of it."""

    model: nn.Module
    shape: tuple[int, ...]
    recipe: Recipe
    domains: tuple[str, ...]


class Objective(Protocol):
    """A frozen dataclass with a loss, a default recipe and a default way to select the model.

    The rest is optional. `passes` is how often a sample goes forward in a step, 1 unless told. `neutral` lists options
    with which the loss is that of ERM, for `check_objective`. Under a `noise`, source validation is measured as well,
    and selects. An `attack`, and `victim(model)` if that is not the model as it is, make it possible to select by
    robust accuracy. `findings(outcome)` yields what a reader should know of a model that was trained so.
    """

    @property
    def recipe(self) -> Recipe: ...

    @property
    def selection(self) -> Selection: ...

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The loss of one step; all randomness comes from `generator`, and the order of domains must not matter."""


OBJECTIVES: Catalogue[Objective] = Catalogue("objective", "shiftproof.objectives")
