"""Training on inputs with Gaussian noise, so that votes under such noise agree."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from shiftproof.objectives.measures import draw_normal
from shiftproof.objectives.objective import OBJECTIVES, Recipe, Selection
from shiftproof.objectives.smoothed import ForSmoothing
from shiftproof.types import Batch, Loss

__all__ = ["Gaussian"]


@OBJECTIVES.register(
    "gaussian", paper="Cohen et al. 2019", buys="L2 radii under noise of that sigma", cost="1 forward, 1 backward"
)
@dataclass(frozen=True)
class Gaussian(ForSmoothing):
    """Cross-entropy under normal noise of standard deviation `sigma`, a fresh draw for every image and step.

    Cohen et al., "Certified adversarial robustness via randomized smoothing" (2019, arXiv:1902.02918).
    """

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=2_000, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"sigma": 0.0},)

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean cross-entropy of the noisy inputs."""
        draws = draw_normal(batch, batch.inputs.shape[1:], generator).to(batch.inputs)
        error = F.cross_entropy(model(batch.inputs + self.sigma * draws), batch.labels, reduction="none")
        return Loss(batch.mean_over_domains(error))
