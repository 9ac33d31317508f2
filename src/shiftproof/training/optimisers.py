"""Optimisers and learning-rate schedules by name."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn

from shiftproof.errors import UnknownName, UsageError
from shiftproof.objectives import Recipe

__all__ = ["check_recipe", "learning_rate", "make_optimiser"]

Parameters = Iterable[nn.Parameter]

OPTIMISERS: dict[str, Callable[[Parameters, Recipe], torch.optim.Optimizer]] = {
    "adam": lambda p, r: torch.optim.Adam(p, lr=r.lr, weight_decay=r.weight_decay),
    "adamw": lambda p, r: torch.optim.AdamW(p, lr=r.lr, weight_decay=r.weight_decay, fused=True),
    "sgd": lambda p, r: torch.optim.SGD(p, lr=r.lr, momentum=r.momentum, weight_decay=r.weight_decay),
}

SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda done: 1.0,
    "linear": lambda done: 1.0 - done,
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "step": lambda done: 0.1 ** ((done >= 0.5) + (done >= 0.75)),
}
"""Factors on the learning rate as functions of the part of training that is done, from 0 to 1."""


def check_recipe(recipe: Recipe) -> None:
    """Whether the recipe's optimiser and schedule exist, and nothing in it goes without effect."""
    if recipe.optimiser not in OPTIMISERS:
        raise UnknownName("optimiser", recipe.optimiser, OPTIMISERS)
    if recipe.schedule not in SCHEDULES:
        raise UnknownName("schedule", recipe.schedule, SCHEDULES)
    if recipe.until == "plateau" and recipe.schedule != "constant":
        raise UsageError(
            f"training.until=plateau lowers the learning rate itself; leave the schedule {recipe.schedule!r} out"
        )
    if recipe.until == "steps" and recipe.epochs != Recipe.epochs:
        raise UsageError(
            "training.epochs is for training that stops by itself: say training.until=plateau or "
            "training.until=patience"
        )


def make_optimiser(parameters: Parameters, recipe: Recipe) -> torch.optim.Optimizer:
    """The recipe's optimiser."""
    check_recipe(recipe)
    return OPTIMISERS[recipe.optimiser](parameters, recipe)


def learning_rate(recipe: Recipe, step: int, drops: int = 0) -> float:
    """The learning rate of a step, divided by ten as often as there were `drops`.

    A function of the step and of what was measured before it, so that a resumed run has nothing to restore.

    >>> learning_rate(Recipe(lr=0.1, steps=100, schedule="step"), 60)
    0.010000000000000002
    """
    return recipe.lr * SCHEDULES[recipe.schedule](step / recipe.steps) * 0.1**drops
