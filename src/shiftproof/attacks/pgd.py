"""Projected gradient ascent inside a ball."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from annotated_types import Interval
from torch import Tensor

from shiftproof.attacks.ascent import Rule, climb, fast_copy, in_range, reach_of, step_inside, usual_step, weaknesses
from shiftproof.attacks.contract import ATTACKS, Attack
from shiftproof.attacks.losses import LOSSES, Losses, LossName, evaluate
from shiftproof.attacks.victim import Victim
from shiftproof.errors import UsageError
from shiftproof.perturbations.threat import Norm, ThreatOption, random_start, random_surface
from shiftproof.types import Finding, Natural, Positive

__all__ = ["PGD", "Best", "draw_points", "in_range"]

Objective = LossName | Losses


@ATTACKS.register(
    "pgd",
    paper="Madry et al. 2018",
    cost="restarts x (steps + 1) + directions forward, restarts x steps backward a sample",
)
@dataclass(frozen=True)
class PGD(Attack):
    """Projected gradient ascent on a loss; the best point on the way is kept: misclassified, then of highest loss.

    A step is 2.5 eps / `steps` long, in l1 three times that, unless `step` says otherwise. `rule`: "steepest" for the
    threat's norm (in l1 several pixels that can still move), "sign", "normalised" (l2), or "raw", the gradient as it
    is. `loss`: "ce", "margin", "dlr" (the margin over the spread of the logits), or a function of scores (N x classes)
    and labels (N) that gives N numbers. It is done `restarts` times from other random starts; `directions` random
    points on the surface of the ball are tried as well.

    `steps` times `step` below eps never gets to the surface from where it starts (see `reach`), and raw steps are as
    short as the gradient: where a classifier is sure, that is next to nothing.

    Madry et al., "Towards deep learning models resistant to adversarial attacks" (2018, arXiv:1706.06083).
    """

    threat: ThreatOption
    steps: Positive = 20
    step: Annotated[float, Interval(gt=0, lt=math.inf)] | None = None
    rule: Rule = "steepest"
    random_start: bool = True
    loss: Objective = "ce"
    directions: Natural = 0
    clip: bool = True
    early_exit: bool = False
    restarts: Positive = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.restarts > 1 and not self.random_start:
            raise UsageError(f"{self.restarts} restarts without a random start are all the same; use random_start=True")

    @property
    def reach(self) -> float:
        """How far from its start the attack can get, in steps of norm 1: `steps` times `step`, and no farther than eps.

        >>> PGD("l2:0.5", steps=8, step=0.01).reach
        0.08
        """
        return reach_of(self.threat, self.steps, self.step)

    def findings(self) -> Iterator[Finding]:
        """What weakens the attack."""
        return weaknesses(self.threat, self.steps, self.step, self.rule)

    @property
    def passes(self) -> int:
        """Scores for one sample, at most."""
        return self.restarts * (self.steps + 1) + self.directions

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """The worst point on the way, for every sample."""
        victim, best = fast_copy(victim, inputs), Best(inputs)
        leaves = self.early_exit and victim.exact
        for _ in range(self.restarts):
            rows = best.rows[~best.wrong] if leaves else best.rows
            if len(rows):
                self._climb(victim, inputs, labels, eps, generators, rows, best)
        for _ in range(self.directions):
            rows = best.rows[~best.wrong] if leaves else best.rows
            if not len(rows):
                break
            points = draw_points(random_surface, self.threat.norm, inputs, eps, generators, rows, self.clip)
            seen = evaluate(victim, points, labels[rows], self._losses, None)
            best.update(rows, points, seen.losses, seen.wrong)
        return best.points

    def _climb(
        self,
        victim: Victim,
        inputs: Tensor,
        labels: Tensor,
        eps: Tensor,
        generators: Sequence[torch.Generator],
        rows: Tensor,
        best: Best,
    ) -> None:
        norm = self.threat.norm
        length = usual_step(norm, eps, self.steps) if self.step is None else torch.full_like(eps, self.step)
        length = length.reshape(-1, *[1] * (inputs.ndim - 1))
        points = inputs[rows]
        if self.random_start:
            points = draw_points(random_start, norm, inputs, eps, generators, rows, self.clip)

        def evaluate_at(some: Tensor, points: Tensor, rule: Rule | None) -> tuple[Tensor, Tensor]:
            chosen = rows[some]
            seen = evaluate(victim, points, labels[chosen], self._losses, rule)
            best.update(chosen, points, seen.losses, seen.wrong)
            return seen.gradient, seen.wrong

        def move(some: Tensor, points: Tensor, gradient: Tensor, number: int) -> Tensor:
            own, done = rows[some], number / self.steps
            return step_inside(
                points, inputs[own], gradient, length[own], norm, eps[own], rule=self.rule, clip=self.clip, done=done
            )

        some, points = climb(
            points, self.steps, partial(evaluate_at, rule=self.rule), move, leaves=self.early_exit and victim.exact
        )
        if len(some):
            evaluate_at(some, points, None)

    @property
    def _losses(self) -> Losses:
        return self.loss if callable(self.loss) else LOSSES[self.loss]


class Best:
    """The worst point so far of every sample: one that is misclassified before one that is not, then by loss."""

    def __init__(self, inputs: Tensor) -> None:
        self.points = inputs.clone()
        self.rows = torch.arange(len(inputs), device=inputs.device)
        self.losses = torch.full((len(inputs),), -math.inf, device=inputs.device, dtype=torch.float64)
        self.wrong = torch.zeros(len(inputs), dtype=torch.bool, device=inputs.device)

    def update(self, rows: Tensor, points: Tensor, losses: Tensor, wrong: Tensor) -> None:
        """Take points (of the samples `rows`) that are worse."""
        higher = (wrong == self.wrong[rows]) & (losses > self.losses[rows])
        taken = (wrong & ~self.wrong[rows]) | higher
        chosen = rows[taken]
        self.points[chosen] = points.detach()[taken]
        self.losses[chosen] = losses[taken].double()
        self.wrong[chosen] = wrong[taken]


def draw_points(
    draw: Callable[..., Tensor],
    norm: Norm,
    inputs: Tensor,
    eps: Tensor,
    generators: Sequence[torch.Generator],
    rows: Tensor,
    clip: bool,
) -> Tensor:
    """Random points around the samples `rows`, each from its own generator, by `random_start` or `random_surface`."""
    shape = (1, *inputs.shape[1:])
    unit = torch.cat([draw(shape, norm, 1.0, generators[row]) for row in rows.tolist()])
    return in_range(inputs[rows] + unit.to(inputs) * eps[rows].reshape(-1, *[1] * (inputs.ndim - 1)), clip)
