"""Correlation alignment: representations of all domains should look alike."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from shiftproof.objectives.annealing import compares_domains
from shiftproof.objectives.measures import cross_entropy, split
from shiftproof.objectives.objective import OBJECTIVES, Objective, Outcome, Recipe, Selection
from shiftproof.types import Batch, Finding, Loss, NonNegative, Range

__all__ = ["CORAL"]


@OBJECTIVES.register(
    "coral", paper="Sun & Saenko 2016", buys="representations that domains share", cost="1 forward, 1 backward"
)
@dataclass(frozen=True)
class CORAL(Objective):
    """Cross-entropy, and `weight` times how means and covariances of representations differ between domains.

    Sun & Saenko, "Deep CORAL: correlation alignment for deep domain adaptation" (2016, arXiv:1607.01719).
    """

    weight: Annotated[NonNegative, Range(0.1, 10, log=True)] = 1.0

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_000, evaluate_every=50)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"weight": 0.0},)

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """Whether there was anything to compare."""
        return compares_domains(outcome)

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean risk of the domains, and the mean difference of every two of them."""
        parts = split(model, "coral")
        codes = parts.encoder(batch.inputs)
        error = batch.mean_over_domains(cross_entropy(parts.head(codes), batch.labels))
        gaps = [
            (one[0] - other[0]).square().mean() + (one[1] - other[1]).square().mean()
            for one, other in itertools.combinations(_moments(codes, batch), 2)
        ]
        difference = torch.stack(gaps).mean() if gaps else error.new_zeros(())
        return Loss(error + self.weight * difference, error=error, difference=difference)


def _moments(codes: Tensor, batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """Mean (D) and covariance (D x D) of each domain's representations (N x D)."""
    means = batch.domain_means(codes).unbind()
    centred = [part - mean for part, mean in zip(torch.split(codes, list(batch.sizes)), means, strict=True)]
    sums = batch.total(torch.stack([part.T @ part for part in centred])).unbind()
    return [(mean, one / max(1, size - 1)) for mean, one, size in zip(means, sums, batch.whole_sizes, strict=True)]
