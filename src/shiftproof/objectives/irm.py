"""Invariant risk minimisation: one classifier that is best in every domain."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from shiftproof.errors import DataError
from shiftproof.objectives.annealing import AnnealedPenalty
from shiftproof.objectives.measures import cross_entropy, spread
from shiftproof.objectives.objective import OBJECTIVES
from shiftproof.types import Batch, Loss, NonNegative, Range

__all__ = ["IRM", "irm_penalty", "scale_slopes"]


@OBJECTIVES.register(
    "irm",
    paper="Arjovsky et al. 2019",
    buys="accuracy where shortcuts of the sources fail",
    cost="1 forward, 1 backward",
)
@dataclass(frozen=True)
class IRM(AnnealedPenalty):
    """Cross-entropy, and a penalty where scaling the logits would lower a domain's risk; with `sigma`, of inputs under
    normal noise.

    The penalty is the squared slope of the risk in that scale, by two halves of the minibatch: the square of one mean
    would count its variance too. (Of a domain smaller than the minibatch, the halves share samples.)

    Arjovsky et al., "Invariant risk minimization" (2019, arXiv:1907.02893).
    """

    sigma: Annotated[NonNegative, Range(0.05, 1.0, log=True)] = 0.0

    splits: ClassVar[bool] = True

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """Mean risk and mean penalty of the domains."""
        inputs = batch.inputs
        if self.sigma:
            inputs = inputs + spread(batch, inputs.shape[1:], self.sigma, generator).to(inputs)
        logits = model(inputs)
        error = batch.mean_over_domains(cross_entropy(logits, batch.labels))
        penalty = irm_penalty(logits, batch)
        return Loss(self.total(error, penalty, batch.step), error=error, penalty=penalty)


def irm_penalty(logits: Tensor, batch: Batch) -> Tensor:
    """The mean over domains of the product of the slopes of two halves of the minibatch: unbiased for the square."""
    if min(batch.whole_sizes) < 2:
        raise DataError("the penalty needs two samples of every domain in a step, for its two halves")
    means = batch.in_halves().domain_means(scale_slopes(logits, batch.labels))
    return (means[0::2] * means[1::2]).mean()


def scale_slopes(logits: Tensor, labels: Tensor) -> Tensor:
    """Of each sample (N): the derivative of the cross-entropy of w * logits by w, at 1.

    >>> scale_slopes(torch.tensor([[0.0, 1.5]]), torch.tensor([1]))
    tensor([-0.2736])
    """
    own = logits.gather(1, labels[:, None])[:, 0]
    return (logits.softmax(-1) * logits).sum(-1) - own
