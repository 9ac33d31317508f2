"""Risk extrapolation: the risks of the domains should be equal."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from shiftproof.catalogue import Checked
from shiftproof.objectives.annealing import compares_domains, never_annealed, penalised
from shiftproof.objectives.measures import cross_entropy
from shiftproof.objectives.objective import OBJECTIVES, Outcome, Recipe, Selection
from shiftproof.types import Batch, Finding, Loss, Natural, NonNegative, Range

__all__ = ["VREx"]


@OBJECTIVES.register(
    "v-rex",
    paper="Krueger et al. 2021",
    buys="accuracy where shortcuts of the sources fail",
    cost="1 forward, 1 backward",
)
@dataclass(frozen=True)
class VREx(Checked):
    """Cross-entropy, and `weight` times the variance of the risks of the domains, annealed as in IRM."""

    weight: Annotated[NonNegative, Range(1, 1e5, log=True)] = 1e4
    anneal: Annotated[Natural, Range(50, 250)] = 150

    recipe = Recipe(optimiser="adam", lr=5e-4, batch=4_000, steps=500, evaluate_every=50)
    selection: ClassVar[Selection] = "last"
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"weight": 0.0},)

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """What kept the penalty from working."""
        yield from never_annealed(outcome, self.anneal)
        yield from compares_domains(outcome)

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The mean of the risks and their variance."""
        risks = batch.domain_means(cross_entropy(model(batch.inputs), batch.labels))
        error, variance = risks.mean(), risks.var(correction=0)
        total = penalised(error, variance, self.weight, self.anneal, batch.step)
        return Loss(total, error=error, variance=variance)
