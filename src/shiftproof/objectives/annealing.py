"""Penalties that start small, or a network would satisfy them before it has learnt anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from torch import Tensor

from shiftproof.objectives.objective import Objective, Outcome, Recipe, Selection
from shiftproof.types import Finding, Natural, NonNegative, Range

__all__ = ["AnnealedPenalty", "add_penalty", "compares_domains", "never_annealed"]


@dataclass(frozen=True)
class AnnealedPenalty(Objective):
    """A penalty that weighs at most 1 for `anneal` steps, then `weight`; the sum is divided by that.

    Source validation would pick the weights from before the penalty, so that the last ones are kept.
    """

    weight: Annotated[NonNegative, Range(1, 1e6, log=True)] = 1e4
    anneal: Annotated[Natural, Range(50, 250)] = 150

    recipe = Recipe(optimiser="adam", lr=5e-4, batch=4_000, steps=500, evaluate_every=50)
    selection: ClassVar[Selection] = "last"
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"weight": 0.0},)

    @property
    def warm_up(self) -> int:
        """Steps before the penalty has its weight."""
        return self.anneal

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """What kept the penalty from working."""
        yield from never_annealed(outcome, self.anneal)
        yield from compares_domains(outcome)

    def total(self, error: Tensor, penalty: Tensor, step: int) -> Tensor:
        """What is minimised at a step."""
        return add_penalty(error, penalty, self.weight, self.anneal, step)


def add_penalty(error: Tensor, penalty: Tensor, weight: float, anneal: int, step: int) -> Tensor:
    """The error plus the weighted penalty; the weight is at most 1 for `anneal` steps.

    A sum with a weight above 1 is divided by it: the learning rate keeps its meaning.

    >>> import torch
    >>> one = torch.tensor(1.0)
    >>> add_penalty(one, one, 100.0, 10, step=9), add_penalty(one, one, 100.0, 10, step=10)
    (tensor(2.), tensor(1.0100))
    """
    now = weight if step >= anneal else min(weight, 1.0)
    return (error + now * penalty) / max(now, 1.0)


def never_annealed(outcome: Outcome, anneal: int, option: str = "anneal") -> Iterator[Finding]:
    """A training that ended before its penalty counted; one until a plateau waits for it."""
    if outcome.recipe.until == "steps" and outcome.recipe.steps <= anneal:
        message = f"the penalty never got its weight: {option} is {anneal}, training.steps {outcome.recipe.steps}"
        yield Finding("warn", "never-annealed", message)


def compares_domains(outcome: Outcome) -> Iterator[Finding]:
    """A training that had no two domains to compare."""
    if len(outcome.domains) == 1:
        message = f"there is one source, {outcome.domains[0]}, and nothing to compare it with: this is nearly ERM"
        yield Finding("warn", "one-source", message)
