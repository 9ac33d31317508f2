"""Early stopping: train until what is measured on source validation samples no longer grows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shiftproof.objectives import Recipe

__all__ = [
    "DROPS",
    "LOSS_PATIENCE",
    "MIN_GAIN",
    "PATIENCE",
    "Stopped",
    "expected_steps",
    "find_plateaus",
    "is_patience_out",
    "planned_recipe",
]

MIN_GAIN = 0.005
"""What counts as a gain: of a mean radius in its own units, of an accuracy half a point."""
PATIENCE = 3
"""Evaluations that must bring such a gain between them."""
LOSS_PATIENCE = 10
"""Evaluations without a smaller loss after which training until patience is out stops."""
DROPS = 2
"""Plateaus at which the learning rate is divided by ten; at the next one training stops."""


@dataclass(frozen=True)
class Stopped:
    """After which step training ended and why: "steps", "plateau", "patience", or "epochs" where neither was reached.

    `plateaus` are the steps at which one was; but for a last one that ended it, the learning rate fell there.
    """

    step: int
    reason: str
    plateaus: tuple[int, ...] = ()


def find_plateaus(values: Sequence[float], min_gain: float = MIN_GAIN, patience: int = PATIENCE) -> list[int]:
    """Places in a row of measurements, counted from 0, at which a plateau is reached.

    There the best of the last `patience` values is less than `min_gain` above the best of all before them; after a
    plateau as many new values are waited for. A function of the values alone, so that a resumed run has nothing to
    restore.

    >>> find_plateaus([0.5, 0.6, 0.7, 0.702, 0.701, 0.703, 0.75, 0.751, 0.75, 0.752])
    [5, 9]
    """
    plateaus: list[int] = []
    for end in range(patience, len(values)):
        recent = end - patience + 1
        waited = not plateaus or end - plateaus[-1] >= patience
        if waited and max(values[recent : end + 1]) - max(values[:recent]) < min_gain:
            plateaus.append(end)
    return plateaus


def is_patience_out(values: Sequence[float], patience: int = LOSS_PATIENCE) -> bool:
    """Whether the best of a row of measurements is followed by `patience` others; a function of the values alone.

    >>> is_patience_out([0.1, 0.3, 0.2, 0.3, 0.1], patience=3), is_patience_out([0.1, 0.3, 0.2], patience=3)
    (True, False)
    """
    return bool(values) and len(values) - 1 - max(range(len(values)), key=values.__getitem__) >= patience


def planned_recipe(recipe: Recipe, sizes: Iterable[int]) -> Recipe:
    """The recipe with its steps counted out, at most, for domains with so many samples to train on.

    An epoch is over when the largest domain has been gone through once.

    >>> planned_recipe(Recipe(until="plateau", epochs=10, batch=100, evaluate_every=None), [950, 400]).steps
    100
    """
    largest = max(size if recipe.samples is None else min(size, recipe.samples) for size in sizes)
    epoch = -(-largest // recipe.batch)
    steps = recipe.steps if recipe.until == "steps" else recipe.epochs * epoch
    return replace(recipe, steps=steps, evaluate_every=recipe.evaluate_every or epoch)


def expected_steps(planned: Recipe, warm_up: int = 0) -> int:
    """Steps that training is expected to take, of a planned recipe: where it stops by itself, the geometric mean of the
    fewest and the most, which is no further from the truth, as a factor, than from either.

    >>> recipe = Recipe(until="plateau", epochs=25, batch=100, evaluate_every=None)
    >>> expected_steps(planned_recipe(recipe, [1_000]))
    158
    """
    if planned.until == "steps":
        return planned.steps
    evaluations = 1 + (LOSS_PATIENCE if planned.until == "patience" else PATIENCE * (DROPS + 1))
    fewest = min(planned.steps, warm_up + evaluations * (planned.evaluate_every or 1))
    return round(math.sqrt(fewest * planned.steps))
