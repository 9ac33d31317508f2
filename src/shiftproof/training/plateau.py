"""Early stopping: train until what is measured on source validation samples no longer grows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shiftproof.objectives import Recipe

__all__ = ["DROPS", "MIN_GAIN", "PATIENCE", "Stopped", "expected_steps", "find_plateaus", "planned_recipe"]

MIN_GAIN = 0.005
"""What counts as a gain: of a mean radius in its own units, of an accuracy half a point."""
PATIENCE = 3
"""Evaluations that must bring such a gain between them."""
DROPS = 2
"""Plateaus at which the learning rate is divided by ten; at the next one training stops."""


@dataclass(frozen=True)
class Stopped:
    """After which step training ended and why: "steps", "plateau", or "epochs" where no last plateau was reached.

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


def planned_recipe(recipe: Recipe, sizes: Iterable[int]) -> Recipe:
    """The recipe with its steps counted out, at most, for domains with so many samples to train on.

    An epoch is over when the largest domain has been gone through once.

    >>> planned_recipe(Recipe(until="plateau", epochs=10, batch=100, evaluate_every=None), [950, 400]).steps
    100
    """
    largest = max(size if recipe.samples is None else min(size, recipe.samples) for size in sizes)
    epoch = -(-largest // recipe.batch)
    steps = recipe.epochs * epoch if recipe.until == "plateau" else recipe.steps
    return replace(recipe, steps=steps, evaluate_every=recipe.evaluate_every or epoch)


def expected_steps(planned: Recipe, warm_up: int = 0) -> int:
    """Steps that training is expected to take, of a planned recipe: where a plateau ends it, the geometric mean of the
    fewest and the most, which is no further from the truth, as a factor, than from either.

    >>> recipe = Recipe(until="plateau", epochs=25, batch=100, evaluate_every=None)
    >>> expected_steps(planned_recipe(recipe, [1_000]))
    158
    """
    if planned.until != "plateau":
        return planned.steps
    evaluations = PATIENCE * (DROPS + 1) + 1
    fewest = min(planned.steps, warm_up + evaluations * (planned.evaluate_every or 1))
    return round(math.sqrt(fewest * planned.steps))
