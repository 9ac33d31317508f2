"""Training that asks predictions to stay as they are under noise."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import nn

from shiftproof.objectives.measures import cross_entropy, divergence, noisy_copies
from shiftproof.objectives.objective import OBJECTIVES, Recipe, Selection
from shiftproof.objectives.smoothed import ForSmoothing
from shiftproof.types import Batch, Loss, NonNegative, Range

__all__ = ["Stability"]


@OBJECTIVES.register(
    "stability",
    paper="Zheng et al. 2016; Li et al. 2019",
    buys="L2 radii under noise of that sigma, at clean accuracy",
    cost="2 forward and backward",
)
@dataclass(frozen=True)
class Stability(ForSmoothing):
    """Cross-entropy of the inputs as they are, and `weight` times KL(f(x) || f(x + noise)).

    Zheng et al., "Improving the robustness of deep neural networks via stability training" (2016, arXiv:1604.04326);
    with normal noise: Li et al., "Certified adversarial robustness with additive noise" (2019, arXiv:1809.03113).
    """

    weight: Annotated[NonNegative, Range(0.5, 8, log=True)] = 2.0

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_500, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"sigma": 0.0}, {"weight": 0.0})
    passes: ClassVar[int] = 2

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The mean over domains of both parts."""
        clean = model(batch.inputs)
        moved = model(noisy_copies(batch, self.sigma, 1, generator))
        error = batch.mean_over_domains(cross_entropy(clean, batch.labels))
        drift = batch.mean_over_domains(divergence(clean.log_softmax(-1), moved.log_softmax(-1)))
        return Loss(error + self.weight * drift, error=error, divergence=drift)
