"""Empirical risk minimisation."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Interval
from torch import nn

from shiftproof.errors import UsageError
from shiftproof.objectives.measures import error_of
from shiftproof.objectives.objective import OBJECTIVES, Objective, Recipe, Selection
from shiftproof.types import Batch, Loss, Range

__all__ = ["ERM"]


@OBJECTIVES.register("erm", paper="Vapnik 1998", buys="accuracy on the sources", cost="1 forward, 1 backward")
@dataclass(frozen=True)
class ERM(Objective):
    """Cross-entropy, averaged over the samples of a domain and then over domains; of numbers, the squared error.

    Logits are divided by `temperature` in the loss alone. Where the head is bounded (row-l2 on a Lipschitz network), a
    lower one trades radius for accuracy: small margins are then enough for a small loss.
    """

    temperature: Annotated[float, Interval(ge=1e-6, lt=math.inf), Range(0.02, 1, log=True)] = 1.0

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_000, evaluate_every=50)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    plain_inputs: ClassVar[bool] = True
    regression: ClassVar[bool] = True

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean error."""
        outputs = model(batch.inputs)
        if self.temperature != 1:
            if batch.labels.is_floating_point():
                raise UsageError(
                    f"temperature is {self.temperature:g}; where numbers are predicted there are no logits"
                )
            outputs = outputs / self.temperature
        return Loss(batch.mean_over_domains(error_of(outputs, batch.labels)))
