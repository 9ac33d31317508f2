"""Risk extrapolation: the risks of the domains should be equal."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from shiftproof.objectives.annealing import AnnealedPenalty
from shiftproof.objectives.measures import cross_entropy
from shiftproof.objectives.objective import OBJECTIVES
from shiftproof.types import Batch, Loss

__all__ = ["VREx"]


@OBJECTIVES.register(
    "v-rex",
    paper="Krueger et al. 2021",
    buys="accuracy where shortcuts of the sources fail",
    cost="1 forward, 1 backward",
)
@dataclass(frozen=True)
class VREx(AnnealedPenalty):
    """Cross-entropy, and `weight` times the variance of the risks of the domains, annealed as in IRM.

    Krueger et al., "Out-of-distribution generalization via risk extrapolation (REx)" (2021, arXiv:2003.00688).
    """

    splits: ClassVar[bool] = True
    plain_inputs: ClassVar[bool] = True

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The mean of the risks and their variance."""
        risks = batch.domain_means(cross_entropy(model(batch.inputs), batch.labels))
        error, variance = risks.mean(), risks.var(correction=0)
        total = self.total(error, variance, batch.step)
        return Loss(total, error=error, variance=variance)
