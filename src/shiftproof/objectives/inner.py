"""The attack inside a training step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor, nn

from shiftproof.attacks.ascent import Rule, weaknesses
from shiftproof.attacks.attack import check_eps
from shiftproof.attacks.embedding_pgd import EmbeddingPGD
from shiftproof.attacks.pgd import PGD
from shiftproof.execution.compute import TrainingPrecision
from shiftproof.objectives.measures import error_of
from shiftproof.objectives.moved import Climb, Movable, movable_batch
from shiftproof.objectives.objective import Objective, Outcome
from shiftproof.perturbations.balls import AdditiveOption
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.types import Batch, Finding, Positive, Range

__all__ = ["InnerAttack"]

_VALIDATION_STEPS = 10


@dataclass(frozen=True)
class InnerAttack(Objective):
    """What an adversarial objective can be told about its attack; a step is 2.5 eps / `steps` (l1: 7.5) unless told.

    `rule` is "steepest" for the threat's norm, or "raw" for the gradient as it is, which hardly moves where the model
    is sure. The network is in eval mode while it is attacked. `precision` "bf16" is for processors that have it.

    Texts are attacked in the embeddings of their tokens: with threat="embedding-l2:1.0", steps=3, step=0.1 and
    random_start=False, or within embedding-linf:0.001 by steps of 0.0005, this is the training of Yi et al., "Improved
    OOD generalization via adversarial training and pre-training" (2021, arXiv:2105.11144).
    """

    threat: AdditiveOption = "linf:8/255"  # type: ignore[assignment]  # as text it can be listed
    steps: Annotated[Positive, Range(1, 20)] = 10
    step: Annotated[float, Interval(gt=0, lt=math.inf)] | None = None
    rule: Rule = "steepest"
    random_start: bool = True
    precision: TrainingPrecision = "f32"

    neutral: ClassVar[tuple[dict[str, Any], ...]] = ({"threat": "linf:0"},)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_eps(self.threat)

    @property
    def attack_passes(self) -> int:
        """Forward passes of a sample for the attack alone."""
        return self.steps if self.threat.eps > 0 else 0

    @property
    def passes(self) -> int:
        """Forward passes of a sample in a step."""
        return self.attack_passes + 1

    @property
    def attack(self) -> PGD | EmbeddingPGD:
        """Attack used to select the model."""
        if isinstance(self.threat, EmbeddingThreat):
            return EmbeddingPGD(self.threat, steps=_VALIDATION_STEPS)
        return PGD(self.threat, steps=_VALIDATION_STEPS, early_exit=True)

    def why_whole(self) -> str:
        """Random starts of texts are drawn one after the other, each for as many tokens as its text has."""
        if isinstance(self.threat, EmbeddingThreat) and self.random_start:
            return (
                "random starts in embeddings depend on all texts of a minibatch (objective.random_start=false has none)"
            )
        return super().why_whole()

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """What weakens the attack."""
        return weaknesses(self.threat, self.steps, self.step, self.rule)

    def movable(self, model: nn.Module, batch: Batch) -> AbstractContextManager[Movable]:
        """What the attack moves of a batch; inside the block the model is frozen and in eval mode."""
        return movable_batch(model, batch, self.threat, self.precision)

    def ascend(self, batch: Movable, losses: Callable[[Tensor], Tensor], generator: torch.Generator) -> Tensor:
        """Points (N x ...) up the losses of their scores, inside the threat."""
        return batch.ascend(losses, Climb(self.steps, self.step, self.rule, self.random_start), generator)

    def attack_batch(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Callable[[nn.Module], Tensor]:
        """What the model, or its encoder, says of the batch moved to where its error is large."""
        with self.movable(model, batch) as movable:
            points = self.ascend(movable, lambda outputs: error_of(outputs, batch.labels), generator)
        return partial(movable.read, points)
