"""The attack inside a training step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor, nn

from shiftproof.attacks.ascent import Rule, ascend, attackable, weaknesses
from shiftproof.attacks.attack import check_eps
from shiftproof.attacks.pgd import PGD
from shiftproof.models.prepared.prepare import Precision
from shiftproof.objectives.measures import cross_entropy
from shiftproof.objectives.objective import Objective, Outcome
from shiftproof.perturbations.threat import ThreatOption
from shiftproof.types import Batch, Finding, Positive, Range

__all__ = ["InnerAttack"]

_VALIDATION_STEPS = 10


@dataclass(frozen=True)
class InnerAttack(Objective):
    """What an adversarial objective can be told about its attack; a step is 2.5 eps / `steps` (l1: 7.5) unless told.

    `rule` is "steepest" for the threat's norm, or "raw" for the gradient as it is, which hardly moves where the model
    is sure. The network is in eval mode while it is attacked. `precision` "bf16" is for processors that have it.
    """

    threat: ThreatOption = "linf:8/255"  # type: ignore[assignment]  # as text it can be listed
    steps: Annotated[Positive, Range(1, 20)] = 10
    step: Annotated[float, Interval(gt=0, lt=math.inf)] | None = None
    rule: Rule = "steepest"
    random_start: bool = True
    precision: Precision = "f32"

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
    def attack(self) -> PGD:
        """By which the model is selected."""
        return PGD(self.threat, steps=_VALIDATION_STEPS, early_exit=True)

    def findings(self, outcome: Outcome) -> Iterator[Finding]:
        """What weakens the attack."""
        return weaknesses(self.threat, self.steps, self.step, self.rule)

    def ascend(
        self,
        scores: Callable[[Tensor], Tensor],
        losses: Callable[[Tensor], Tensor],
        inputs: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """Inputs (N x ...) moved up the losses of their scores, inside the threat."""
        return ascend(
            scores,
            losses,
            inputs,
            self.threat,
            self.steps,
            generator,
            step=self.step,
            rule=self.rule,
            random_start=self.random_start,
        )

    def misled(self, model: nn.Module, batch: Batch, generator: torch.Generator) -> Tensor:
        """The batch's inputs moved to where the cross-entropy is high."""
        with attackable(model, batch.inputs, self.precision) as scores:
            return self.ascend(scores, lambda said: cross_entropy(said, batch.labels), batch.inputs, generator)
