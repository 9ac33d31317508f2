"""Training on texts with noise on the embeddings of their tokens, so that votes under such noise agree."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from shiftproof.models.text import EmbeddedTexts
from shiftproof.objectives.objective import OBJECTIVES, Objective, Recipe, Selection
from shiftproof.perturbations import noise
from shiftproof.types import Batch, Loss, NonNegative, Range

__all__ = ["EmbeddingGaussian"]


@OBJECTIVES.register(
    "embedding-gaussian",
    paper="Cohen et al. 2019",
    buys="radii in the model's own embedding under noise of that sigma",
    cost="1 forward, 1 backward",
)
@dataclass(frozen=True)
class EmbeddingGaussian(Objective):
    """Cross-entropy of texts whose own tokens have normal noise of standard deviation `sigma` on their embeddings.

    A fresh draw for every text and step; padding and special tokens never move. An embedding that is trained too may
    grow, which makes the same sigma a smaller noise.
    """

    sigma: Annotated[NonNegative, Range(0.02, 1.0, log=True)] = 0.1

    recipe = Recipe(optimiser="adamw", lr=1e-3, batch=64, steps=1_000, schedule="linear", evaluate_every=100)
    selection: ClassVar[Selection] = "source-validation"
    kind: ClassVar[str] = "text"
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"sigma": 0.0},)

    @property
    def noise(self) -> noise.EmbeddingGaussian | None:
        """Under which the model is selected."""
        return noise.EmbeddingGaussian(self.sigma) if self.sigma else None

    def why_whole(self) -> str:
        """The noise of a text depends on how many tokens the longest one has."""
        return "its noise is drawn for as many tokens as the longest text of a minibatch has"

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean over domains of the mean cross-entropy of the noisy texts."""
        texts = EmbeddedTexts.of(model, batch.inputs)
        draws = torch.randn(texts.embed().shape, generator=generator, device=generator.device)
        logits = texts.moved(self.sigma * draws)
        return Loss(batch.mean_over_domains(F.cross_entropy(logits, batch.labels, reduction="none")))
