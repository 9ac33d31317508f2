"""Training on randomly deformed inputs, so that votes under such deformations agree."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from shiftproof.objectives.measures import draw_normal, draw_uniform
from shiftproof.objectives.objective import OBJECTIVES, Objective, Recipe, Selection
from shiftproof.perturbations.noise import NoiseOption
from shiftproof.types import Batch, Loss

__all__ = ["DeformationAugmentation"]


@OBJECTIVES.register(
    "deformation", paper="Alfarra et al. 2022", buys="radii under that noise", cost="1 forward, 1 backward"
)
@dataclass(frozen=True)
class DeformationAugmentation(Objective):
    """Cross-entropy under any `noise` (a rotation, a translation, ...), a fresh draw for every image and step.

    Alfarra et al., "DeformRS: certifying input deformations with randomized smoothing" (2022, arXiv:2107.00996).
    """

    noise: NoiseOption = "rotation:0.25"  # type: ignore[assignment]  # as text it can be listed

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=2_000, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    kind: ClassVar[str] = "image"

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean cross-entropy of the deformed inputs."""
        size = self.noise.size(tuple(batch.inputs.shape[1:]))
        if self.noise.law == "normal":
            draws = draw_normal(batch, (size,), generator)
        else:
            draws = draw_uniform(batch, size, generator)
        deformed = self.noise.apply(batch.inputs, self.noise.scale * draws.to(batch.inputs))
        error = F.cross_entropy(model(deformed), batch.labels, reduction="none")
        return Loss(batch.mean_over_domains(error))
