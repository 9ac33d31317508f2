"""Penalties that start small, or a network would satisfy them before it has learnt anything."""

from collections.abc import Iterator

from torch import Tensor

from shiftproof.objectives.objective import Outcome
from shiftproof.types import Finding

__all__ = ["compares_domains", "never_annealed", "penalised"]


def penalised(error: Tensor, penalty: Tensor, weight: float, anneal: int, step: int) -> Tensor:
    """The error plus the weighted penalty; the weight is at most 1 for `anneal` steps.

    A sum with a weight above 1 is divided by it: the learning rate keeps its meaning.

    >>> import torch
    >>> one = torch.tensor(1.0)
    >>> penalised(one, one, 100.0, 10, step=9), penalised(one, one, 100.0, 10, step=10)
    (tensor(2.), tensor(1.0100))
    """
    now = weight if step >= anneal else min(weight, 1.0)
    return (error + now * penalty) / max(now, 1.0)


def never_annealed(outcome: Outcome, anneal: int) -> Iterator[Finding]:
    """A training that ended before its penalty counted."""
    if outcome.recipe.steps <= anneal:
        message = f"the penalty never got its weight: anneal is {anneal}, training.steps {outcome.recipe.steps}"
        yield Finding("warn", "never-annealed", message)


def compares_domains(outcome: Outcome) -> Iterator[Finding]:
    """A training that had no two domains to compare."""
    if len(outcome.domains) == 1:
        message = f"there is one source, {outcome.domains[0]}, and nothing to compare it with: this is nearly ERM"
        yield Finding("warn", "one-source", message)
