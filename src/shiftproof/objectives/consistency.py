"""Gaussian training that asks noisy predictions of one image to agree."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from shiftproof.objectives.measures import cross_entropy, divergence, noisy_logits
from shiftproof.objectives.objective import OBJECTIVES, Recipe, Selection
from shiftproof.objectives.smoothed import ForSmoothing
from shiftproof.types import Batch, Loss, NonNegative, Positive, Range

__all__ = ["Consistency"]


@OBJECTIVES.register(
    "consistency",
    paper="Jeong & Shin 2020",
    buys="L2 radii under noise of that sigma",
    cost="samples forward and backward",
)
@dataclass(frozen=True)
class Consistency(ForSmoothing):
    """Mean cross-entropy of noisy copies, `weight` times how they disagree, `entropy` times that of their mean.

    Copies of an input disagree by the mean of KL(mean of the copies' probabilities || those of a copy).

    Jeong & Shin, "Consistency regularization for certified robustness of smoothed classifiers" (2020,
    arXiv:2006.04062).
    """

    samples: Annotated[Positive, Range(2, 4)] = 2
    weight: Annotated[NonNegative, Range(5, 20, log=True)] = 10.0
    entropy: Annotated[NonNegative, Range(0, 1)] = 0.5

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_500, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    neutral: ClassVar[tuple[dict[str, Any], ...]] = (
        {"sigma": 0.0, "entropy": 0.0},
        {"sigma": 0.0, "weight": 0.0, "entropy": 0.0},
    )

    @property
    def passes(self) -> int:
        """Forward passes of a sample in a step."""
        return self.samples

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The mean over domains of all three parts."""
        logits = noisy_logits(model, batch, self.sigma, self.samples, generator)
        error, disagreement, doubt = map(batch.mean_over_domains, self.parts(logits, batch.labels))
        total = error + self.weight * disagreement + self.entropy * doubt
        return Loss(total, error=error, disagreement=disagreement, entropy=doubt)

    def parts(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Error, disagreement and entropy of the mean of each sample (N), from logits (samples x N x K)."""
        log_p = logits.log_softmax(-1)
        log_mean = log_p.exp().mean(0).clamp(min=torch.finfo(log_p.dtype).tiny).log()
        errors = cross_entropy(logits.flatten(0, 1), labels.repeat(len(logits))).reshape(len(logits), -1)
        disagreement = divergence(log_mean.expand_as(log_p), log_p).mean(0)
        return errors.mean(0), disagreement, -(log_mean.exp() * log_mean).sum(-1)
