"""Gradient ascent that finds its own step size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.attacks.ascent import direction, fast_copy, project_inside
from shiftproof.attacks.contract import ATTACKS, Attack
from shiftproof.attacks.losses import LOSSES, Evaluation, LossName, evaluate, margin, towards
from shiftproof.attacks.pgd import Best, draw_points
from shiftproof.attacks.rows import take_rows, where_rows
from shiftproof.attacks.sparse_apgd import Sparse, sparse_climb
from shiftproof.attacks.victim import Victim
from shiftproof.perturbations.threat import Norm, ThreatOption, random_start
from shiftproof.types import Natural, Positive

__all__ = ["APGD", "checkpoints"]

_FIRST_STEP = 2.0
"""In radii."""
_MOMENTUM = 0.75
"""The part of a move that is the new step; the rest goes on in the direction of the move before it."""
_RISING = 0.75
"""The part of the steps between two checkpoints that should raise the loss, or the step is halved."""


@ATTACKS.register(
    "apgd",
    paper="Croce & Hein 2020",
    cost="restarts x (steps + 1) forward, restarts x steps backward a sample, times targets if there are any",
)
@dataclass(frozen=True)
class APGD(Attack):
    """Gradient ascent with momentum; a step is halved, and the best point taken up again, where the loss stops rising.

    With `targets` = k, it goes towards each of the k most likely other classes in turn, instead of away from the label.
    `loss` is "ce", "margin" or "dlr". In l1 it adapts how many numbers a step changes, and comes from larger balls
    (`sparse_climb`). A misclassified sample is left alone, unless `early_exit` is off or the victim is judged by other
    scores.

    Croce & Hein, "Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks"
    (2020, arXiv:2003.01690).
    """

    threat: ThreatOption
    steps: Positive = 100
    loss: LossName = "ce"
    restarts: Positive = 1
    targets: Natural = 0
    clip: bool = True
    early_exit: bool = True

    @property
    def passes(self) -> int:
        """Scores for one sample, at most."""
        return self.restarts * (self.steps + 1) * max(1, self.targets) + min(1, self.targets)

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """The worst point on the way, for every sample."""
        victim, best = fast_copy(victim, inputs), Best(inputs)
        others = _likely(victim, inputs, labels, self.targets) if self.targets else None
        for turn in range(self.restarts * (1 if others is None else others.shape[1])):
            rows = best.rows[~best.wrong] if self.early_exit and victim.exact else best.rows
            if not len(rows):
                break
            start = draw_points(random_start, self.threat.norm, inputs, eps, generators, rows, self.clip)
            goals = None if others is None else others[rows, turn % others.shape[1]]
            if self.threat.norm == "l1":
                climb = Sparse.begin(rows, inputs[rows], labels[rows], eps[rows], start, goals)
                sparse_climb(victim, climb, self.loss, self.steps, best, self.clip, self.early_exit and victim.exact)
                continue
            self._climb(victim, _Climb.begin(rows, inputs[rows], labels[rows], eps[rows], start, goals), best)
        return best.points

    def _climb(self, victim: Victim, climb: _Climb, best: Best) -> None:
        ends, begun = checkpoints(self.steps), 0
        for number in range(self.steps + 1):
            last = number == self.steps
            losses = LOSSES[self.loss] if climb.goals is None else towards(self.loss, climb.goals)
            seen = evaluate(victim, climb.points, climb.labels, losses, None if last else "steepest")
            # losses towards one class and another can't be compared
            height = seen.losses if climb.goals is None else margin(seen.scores, climb.labels)
            best.update(climb.rows, climb.points, height, seen.wrong)
            if last:
                break
            climb = climb.note(seen)
            if self.early_exit and victim.exact and bool(seen.wrong.any()):
                climb = take_rows(climb, ~seen.wrong)
                if not len(climb.rows):
                    break
            if number in ends:
                climb, begun = climb.check(number - begun), number
            climb = climb.move(self.threat.norm, self.clip, 1.0 if number == 0 else _MOMENTUM)


def checkpoints(steps: int) -> frozenset[int]:
    """After which steps the step size is looked at: first after 22 % of them, then more and more often.

    >>> sorted(checkpoints(100))
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    ends, before, now = [], 0.0, 0.22
    while now < 1:
        ends.append(math.ceil(round(now * steps, 9)))
        before, now = now, now + max(now - before - 0.03, 0.06)
    return frozenset(ends)


def _likely(victim: Victim, inputs: Tensor, labels: Tensor, count: int) -> Tensor:
    """The classes other than the label (N x count, or as many as there are), the most likely first."""
    with torch.no_grad():
        scores = victim.scores(inputs).double()
    own = F.one_hot(labels, scores.shape[1]).bool()
    return scores.masked_fill(own, -math.inf).topk(min(count, scores.shape[1] - 1), 1).indices


@dataclass(frozen=True, eq=False)
class _Climb:
    """Where samples are on their way up; every field has a row a sample."""

    rows: Tensor
    inputs: Tensor
    labels: Tensor
    eps: Tensor
    goals: Tensor | None
    points: Tensor
    before: Tensor
    gradient: Tensor
    step: Tensor
    loss: Tensor
    rises: Tensor
    halved: Tensor
    best: Tensor
    best_gradient: Tensor
    best_loss: Tensor
    checked_loss: Tensor

    @classmethod
    def begin(
        cls, rows: Tensor, inputs: Tensor, labels: Tensor, eps: Tensor, start: Tensor, goals: Tensor | None
    ) -> _Climb:
        none = torch.full((len(rows),), -math.inf, dtype=torch.float64, device=inputs.device)
        count, no = torch.zeros_like(rows), torch.zeros_like(rows, dtype=torch.bool)
        # a first loss is no rise; and it is the first that the next checkpoint has to beat
        high = torch.full_like(none, math.inf)
        step = _FIRST_STEP * eps
        return cls(
            rows, inputs, labels, eps, goals, start, start, start, step, high, count, no, start, start, none, none
        )

    def note(self, seen: Evaluation) -> _Climb:
        """With what was seen at the points."""
        higher = seen.losses > self.best_loss
        return replace(
            self,
            gradient=seen.gradient,
            loss=seen.losses,
            rises=self.rises + (seen.losses > self.loss),
            best=where_rows(higher, self.points, self.best),
            best_gradient=where_rows(higher, seen.gradient, self.best_gradient),
            best_loss=torch.maximum(seen.losses, self.best_loss),
        )

    def check(self, steps: int) -> _Climb:
        """At a checkpoint, `steps` after the last one: from the best point on in steps of half the size, if need be."""
        stuck = ~self.halved & (self.best_loss <= self.checked_loss)
        halved = (self.rises < _RISING * steps) | stuck
        return replace(
            self,
            points=where_rows(halved, self.best, self.points),
            before=where_rows(halved, self.best, self.before),
            gradient=where_rows(halved, self.best_gradient, self.gradient),
            step=torch.where(halved, self.step / 2, self.step),
            loss=torch.where(halved, self.best_loss, self.loss),
            rises=torch.zeros_like(self.rises),
            halved=halved,
            checked_loss=self.best_loss,
        )

    def move(self, norm: Norm, clip: bool, momentum: float) -> _Climb:
        """One step on."""

        def back(points: Tensor) -> Tensor:
            return project_inside(points - self.inputs, self.inputs, norm, self.eps, clip)

        length = self.step.reshape(-1, *[1] * (self.points.ndim - 1))
        ahead = back(self.points + length * direction(self.gradient, norm, "steepest"))
        if momentum < 1:
            ahead = back(self.points + momentum * (ahead - self.points) + (1 - momentum) * (self.points - self.before))
        return replace(self, points=ahead, before=self.points)
