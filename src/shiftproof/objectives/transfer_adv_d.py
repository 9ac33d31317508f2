"""The "adv-d" training of a source extractor: attacked inputs keep their representations."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import nn

from shiftproof.objectives.inner import InnerAttack
from shiftproof.objectives.measures import cross_entropy, split
from shiftproof.objectives.objective import OBJECTIVES, Recipe, Selection
from shiftproof.perturbations.balls import AdditiveOption
from shiftproof.types import Batch, Loss, NonNegative, Range

__all__ = ["TransferAdvD"]


@OBJECTIVES.register(
    "transfer-adv-d",
    paper="Provably Robust Transfer, 2022; Chen et al. 2021",
    buys="representations that attacks move less",
    cost="steps + 2 forward and backward",
)
@dataclass(frozen=True)
class TransferAdvD(InnerAttack):
    """Cross-entropy of attacked inputs, and `weight` times how far their representations moved.

    Neither weight nor distance is published. Ours is the square of the difference, averaged over coordinates, so that
    it does not grow with their number. The distance is after Chen et al., "CARTL: cooperative adversarially-robust
    transfer learning" (2021, arXiv:2106.06667).
    """

    threat: AdditiveOption = "l2:0.1"  # type: ignore[assignment]
    weight: Annotated[NonNegative, Range(0.1, 10, log=True)] = 1.0

    recipe = Recipe(optimiser="adam", lr=1e-4, batch=128, steps=1_000, evaluate_every=100)
    selection: ClassVar[Selection] = "robust-source-validation"
    splits: ClassVar[bool] = True

    @property
    def passes(self) -> int:
        """Forward passes of a sample in a step."""
        return self.attack_passes + 2

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The mean over domains of both parts."""
        parts = split(model, "transfer-adv-d")
        attacked = self.attack_batch(model, batch, generator)
        clean, moved = parts.encoder(batch.inputs), attacked(parts.encoder)
        error = batch.mean_over_domains(cross_entropy(parts.head(moved), batch.labels))
        distance = batch.mean_over_domains((clean - moved).square().mean(1))
        return Loss(error + self.weight * distance, error=error, distance=distance)
