"""Training on the worst inputs inside a ball."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from shiftproof.objectives.inner import InnerAttack
from shiftproof.objectives.measures import error_of
from shiftproof.objectives.objective import OBJECTIVES, Recipe, Selection
from shiftproof.types import Batch, Loss

__all__ = ["AdversarialTraining"]


@OBJECTIVES.register(
    "adversarial-training",
    paper="Madry et al. 2018; Yi et al., OOD by adversarial training, 2021",
    buys="accuracy under attack, often under corruption",
    cost="steps + 1 forward and backward",
)
@dataclass(frozen=True)
class AdversarialTraining(InnerAttack):
    """Cross-entropy of attacked inputs: descent in the weights of what a few steps of ascent find in the ball.

    Of a model that predicts numbers, the squared error in its place.

    Madry et al., "Towards deep learning models resistant to adversarial attacks" (2018, arXiv:1706.06083); for other
    domains: Yi et al., "Improved OOD generalization via adversarial training and pre-training" (2021,
    arXiv:2105.11144).
    """

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_000, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "robust-source-validation"
    splits: ClassVar[bool] = True
    regression: ClassVar[bool] = True

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean error of the attacked inputs."""
        outputs_of = self.attack_batch(model, batch, generator)
        return Loss(batch.mean_over_domains(error_of(outputs_of(model), batch.labels)))
