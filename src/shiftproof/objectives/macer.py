"""Training that makes radii larger by descent on a soft version of them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
import torch.nn.functional as F
from annotated_types import Interval
from torch import Tensor, nn

from shiftproof.objectives.annealing import never_annealed
from shiftproof.objectives.measures import noisy_logits
from shiftproof.objectives.objective import OBJECTIVES, Outcome, Recipe, Selection
from shiftproof.objectives.smoothed import ForSmoothing
from shiftproof.types import Batch, Finding, Loss, Natural, NonNegative, Positive, Range

__all__ = ["MACER"]

Temperature = Annotated[float, Interval(gt=0, lt=math.inf)]


@OBJECTIVES.register(
    "macer",
    paper="Zhai et al. 2020",
    buys="L2 radii under noise of that sigma, without an attack",
    cost="samples forward and backward",
)
@dataclass(frozen=True)
class MACER(ForSmoothing):
    """Cross-entropy of the mean probabilities under noise, and `weight` times how far the soft radius is below `gamma`.

    Soft radii are those of probabilities at inverse temperature `beta`; they count, up to a gap of `gamma`, where the
    smoothed answer is right. A weight of 12 is for sigma 0.25; for 0.5 others take 4, of digits and clothes 16 with the
    penalty left out of the first `defer` steps (a third of training there), which only the cross-entropy has.

    Zhai et al., "MACER: attack-free and scalable robust training via maximizing certified radius" (2020,
    arXiv:2001.02378).
    """

    samples: Annotated[Positive, Range(4, 16, log=True)] = 16
    weight: Annotated[NonNegative, Range(1, 16, log=True)] = 12.0
    gamma: Annotated[NonNegative, Range(4, 8)] = 8.0
    beta: Annotated[Temperature, Range(1, 16, log=True)] = 16.0
    defer: Natural = 0

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=64, steps=1_000, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "source-validation"
    splits: ClassVar[bool] = True
    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"sigma": 0.0}, {"sigma": 0.0, "weight": 0.0})

    @property
    def passes(self) -> int:
        """Forward passes of a sample in a step."""
        return self.samples

    @property
    def warm_up(self) -> int:
        """Steps before the penalty counts."""
        return self.defer

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """What kept the penalty from working."""
        return never_annealed(outcome, self.defer, "defer")

    def weight_at(self, step: int) -> float:
        """The weight of the penalty at a step."""
        return self.weight if step >= self.defer else 0.0

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The mean over domains of both parts."""
        logits = noisy_logits(model, batch, self.sigma, self.samples, generator)
        errors, shortfalls = self.parts(logits, batch.labels)
        error, shortfall = batch.mean_over_domains(errors), batch.mean_over_domains(shortfalls)
        return Loss(error + self.weight_at(batch.step) * shortfall, error=error, shortfall=shortfall)

    def parts(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Error and shortfall of the radius of each sample (N), from logits of noisy copies (samples x N x K)."""
        log_p = logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))
        # in double: between a probability and 1 float32 has no room for the quantiles of large gaps
        sharp = (self.beta * logits.double()).softmax(-1).mean(0)
        first, second = sharp.topk(2, -1).values.unbind(-1)
        with torch.no_grad():
            counts = (sharp.argmax(-1) == labels) & (_gap(first, second) <= self.gamma)
        # a sure answer has an infinite gap: its gradient must not be asked for, not even to multiply it by 0
        gap = _gap(torch.where(counts, first, 0.5), torch.where(counts, second, 0.5))
        shortfall = self.sigma / 2 * torch.where(counts, self.gamma - gap, 0.0)
        return F.nll_loss(log_p, labels, reduction="none"), shortfall.to(logits.dtype)


def _gap(first: Tensor, second: Tensor) -> Tensor:
    gap: Tensor = torch.special.ndtri(first) - torch.special.ndtri(second)
    return gap
