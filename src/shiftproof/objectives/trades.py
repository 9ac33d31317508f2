"""Training that trades accuracy for stability under attack."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import nn

from shiftproof.errors import UsageError
from shiftproof.objectives.inner import InnerAttack
from shiftproof.objectives.measures import cross_entropy, divergence
from shiftproof.objectives.objective import OBJECTIVES, Recipe, Selection
from shiftproof.types import Batch, Loss, NonNegative, Range

__all__ = ["TRADES"]


@OBJECTIVES.register(
    "trades",
    paper="Zhang et al. 2019",
    buys="accuracy under attack, traded by beta",
    cost="steps + 3 forward, steps + 2 backward",
)
@dataclass(frozen=True)
class TRADES(InnerAttack):
    """Cross-entropy of the inputs, and `beta` times how far predictions diverge in the ball: KL(f(x) || f(x')).

    Zhang et al., "Theoretically principled trade-off between robustness and accuracy" (2019, arXiv:1901.08573).
    """

    beta: Annotated[NonNegative, Range(1, 10, log=True)] = 6.0

    recipe = Recipe(optimiser="adam", lr=1e-3, batch=128, steps=1_000, schedule="cosine", evaluate_every=100)
    selection: ClassVar[Selection] = "robust-source-validation"
    splits: ClassVar[bool] = True
    neutral = ({"threat": "linf:0"}, {"beta": 0.0})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.random_start:
            raise UsageError("trades starts at random: at the input itself the divergence is 0 and has no slope")

    @property
    def passes(self) -> int:
        """Forward passes of a sample in a step."""
        return self.attack_passes + 3

    def loss(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Loss:
        """The attack maximises the divergence from predictions that it asks for once."""
        with self.movable(model, batch) as movable:
            with torch.no_grad():
                clean_log_p = movable.scores(movable.start).log_softmax(-1)
            points = self.ascend(movable, lambda moved: divergence(clean_log_p, moved.log_softmax(-1)), generator)
        clean, moved = model(batch.inputs), movable.read(points, model)
        error = batch.mean_over_domains(cross_entropy(clean, batch.labels))
        drift = batch.mean_over_domains(divergence(clean.log_softmax(-1), moved.log_softmax(-1)))
        return Loss(error + self.beta * drift, error=error, divergence=drift)
