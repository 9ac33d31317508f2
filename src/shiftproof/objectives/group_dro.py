"""Distributionally robust optimisation over groups: the hardest domain counts most."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from shiftproof.objectives.annealing import compares_domains
from shiftproof.objectives.measures import cross_entropy
from shiftproof.objectives.objective import OBJECTIVES, Objective, Outcome, Recipe, Selection
from shiftproof.types import Batch, Finding, Loss, NonNegative, Range

__all__ = ["GroupDRO"]


@OBJECTIVES.register(
    "group-dro", paper="Sagawa et al. 2020", buys="accuracy on the worst source domain", cost="1 forward, 1 backward"
)
@dataclass(frozen=True)
class GroupDRO(Objective):
    """Cross-entropy, weighted over domains; a weight grows by the factor exp(eta * risk) at every step.

    Sagawa et al., "Distributionally robust neural networks for group shifts" (2020, arXiv:1911.08731).
    """

    eta: Annotated[NonNegative, Range(1e-3, 1e-1, log=True)] = 1e-2

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_000, evaluate_every=50)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    plain_inputs: ClassVar[bool] = True
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"eta": 0.0},)

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """Whether there was anything to compare."""
        return compares_domains(outcome)

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The weighted mean of the risks; the weights are remembered by the names of the domains."""
        risks = batch.domain_means(cross_entropy(model(batch.inputs), batch.labels))
        even = risks.new_zeros(())
        before = torch.stack([batch.memory.get(name, even).to(risks) for name in batch.names])
        log_weights = (before + self.eta * risks.detach()).log_softmax(0)
        worst = risks.max()
        return Loss(
            (log_weights.exp() * risks).sum(), remember=dict(zip(batch.names, log_weights, strict=True)), worst=worst
        )
