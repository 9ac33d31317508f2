"""Training on inputs as they are and attacked."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Interval
from torch import nn

from shiftproof.objectives.inner import InnerAttack
from shiftproof.objectives.measures import cross_entropy
from shiftproof.objectives.objective import OBJECTIVES, Recipe, Selection
from shiftproof.types import Batch, Loss, Positive, Range

__all__ = ["AdversarialAugmentation"]


@OBJECTIVES.register(
    "adversarial-augmentation",
    paper="Alhamoud et al., Generalizability of Adversarial Robustness, 2023",
    buys="accuracy under attack at less cost in accuracy",
    cost="steps + 2 forward and backward",
)
@dataclass(frozen=True)
class AdversarialAugmentation(InnerAttack):
    """`clean_weight` times the cross-entropy of the inputs, the rest that of the same inputs attacked; sources only.

    Alhamoud et al., "Generalizability of adversarial robustness under distribution shifts" (2023, arXiv:2209.15042).
    """

    steps: Annotated[Positive, Range(1, 20)] = 20
    clean_weight: Annotated[float, Interval(ge=0, le=1), Range(0, 1)] = 0.5

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_000, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "robust-source-validation"
    splits: ClassVar[bool] = True
    neutral = ({"threat": "linf:0"}, {"clean_weight": 1.0})

    @property
    def passes(self) -> int:
        """Forward passes of a sample in a step."""
        return self.attack_passes + 2

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The weighted mean of both errors; each kind of inputs has a pass, and BatchNorm statistics, of its own."""
        attacked = self.attack_batch(model, batch, generator)
        kinds = model(batch.inputs), attacked(model)
        clean, robust = (batch.mean_over_domains(cross_entropy(logits, batch.labels)) for logits in kinds)
        return Loss(self.clean_weight * clean + (1 - self.clean_weight) * robust, clean=clean, attacked=robust)
