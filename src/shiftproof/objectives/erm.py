"""Empirical risk minimisation."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from shiftproof.objectives.measures import error_of
from shiftproof.objectives.objective import OBJECTIVES, Objective, Recipe, Selection
from shiftproof.types import Batch, Loss

__all__ = ["ERM"]


@OBJECTIVES.register("erm", paper="Vapnik 1998", buys="accuracy on the sources", cost="1 forward, 1 backward")
@dataclass(frozen=True)
class ERM(Objective):
    """Cross-entropy, averaged over the samples of a domain and then over domains; of numbers, the squared error."""

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_000, evaluate_every=50)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    plain_inputs: ClassVar[bool] = True
    regression: ClassVar[bool] = True

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean error."""
        return Loss(batch.mean_over_domains(error_of(model(batch.inputs), batch.labels)))
