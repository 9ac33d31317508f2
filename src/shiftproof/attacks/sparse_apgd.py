"""APGD in l1: steps that adapt how many numbers they change, from larger balls to the one that is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from shiftproof.attacks.ascent import project_inside
from shiftproof.attacks.losses import LOSSES, Evaluation, LossName, evaluate, margin, towards
from shiftproof.attacks.pgd import Best
from shiftproof.attacks.rows import take_rows, where_rows
from shiftproof.attacks.victim import Victim
from shiftproof.perturbations.l1 import sparse_direction

__all__ = ["Sparse", "sparse_climb", "stages"]

_BALLS = ((3.0, 0.3), (2.0, 0.6), (1.0, 1.0))
"""Radii, as multiples of eps, and the part of all steps after which each of them ends."""
_CHECKED = 0.04
"""After this part of the steps within a ball, the sparsity is looked at."""
_SPARSER, _FEWER = 0.95, 1.5
"""A best change with less than this part of its earlier numbers starts over with long steps; by so much fewer numbers
than the best change has are moved."""
_SHORTER, _SHORTEST = 1.5, 0.1
"""A step is divided by this at a checkpoint; the shortest one, in radii."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """Where samples are on their way up in l1; every field has a row a sample. Steps are in radii."""

    rows: Tensor
    inputs: Tensor
    labels: Tensor
    eps: Tensor
    goals: Tensor | None
    points: Tensor
    gradient: Tensor
    step: Tensor
    nonzero: Tensor
    best: Tensor
    best_gradient: Tensor
    best_loss: Tensor

    @classmethod
    def begin(
        cls, rows: Tensor, inputs: Tensor, labels: Tensor, eps: Tensor, start: Tensor, goals: Tensor | None
    ) -> Sparse:
        """At the points `start`, before anything was seen there."""
        none = torch.full((len(rows),), -math.inf, dtype=torch.float64, device=inputs.device)
        step, nonzero = torch.ones_like(none), _changed(start, inputs)
        return cls(rows, inputs, labels, eps, goals, start, start, step, nonzero, start, start, none)

    def note(self, seen: Evaluation) -> Sparse:
        """With what was seen at the points."""
        higher = seen.losses > self.best_loss
        return replace(
            self,
            gradient=seen.gradient,
            best=where_rows(higher, self.points, self.best),
            best_gradient=where_rows(higher, seen.gradient, self.best_gradient),
            best_loss=torch.maximum(seen.losses, self.best_loss),
        )

    def adapt(self) -> Sparse:
        """At a checkpoint: long steps from the best point where it has become sparser, else shorter ones."""
        nonzero = _changed(self.best, self.inputs)
        sparser = nonzero < _SPARSER * self.nonzero
        return replace(
            self,
            points=where_rows(sparser, self.best, self.points),
            gradient=where_rows(sparser, self.best_gradient, self.gradient),
            step=torch.where(sparser, 1.0, (self.step / _SHORTER).clamp(min=_SHORTEST)),
            nonzero=nonzero,
        )

    def move(self, factor: float, clip: bool) -> Sparse:
        """One step on, in balls of `factor` times the radii."""
        shape, radii = (-1, *[1] * (self.points.ndim - 1)), factor * self.eps
        counts = (self.nonzero / _FEWER).round().long()
        heading = sparse_direction(self.gradient, counts, self.points if clip else None)
        change = self.points - self.inputs + (self.step.to(radii) * radii).reshape(shape) * heading
        return replace(self, points=project_inside(change, self.inputs, "l1", radii, clip))

    def shrink(self, factor: float, clip: bool) -> Sparse:
        """From the best point on in smaller balls, in which nothing was seen so far."""
        points = project_inside(self.best - self.inputs, self.inputs, "l1", factor * self.eps, clip)
        return Sparse.begin(self.rows, self.inputs, self.labels, self.eps, points, self.goals)


def sparse_climb(
    victim: Victim, climb: Sparse, loss: LossName, steps: int, best: Best, clip: bool, leaves: bool
) -> None:
    """Climb, and update `best` with the points on the way that are inside the balls that are asked for.

    Croce & Hein, "Mind the box: l1-APGD for sparse adversarial attacks on image classifiers" (2021, arXiv:2103.01208).
    Samples that are misclassified inside their balls are left alone if `leaves`.
    """
    plan = stages(steps)
    for number in range(steps + 1):
        factor, first, end = next(stage for stage in plan if number < stage[2])
        losses = LOSSES[loss] if climb.goals is None else towards(loss, climb.goals)
        seen = evaluate(victim, climb.points, climb.labels, losses, None if number == steps else "steepest")
        if factor == 1:
            # losses towards one class and another can't be compared
            height = seen.losses if climb.goals is None else margin(seen.scores, climb.labels)
            best.update(climb.rows, climb.points, height, seen.wrong)
        if number == steps:
            break
        climb = climb.note(seen)
        if factor == 1 and leaves and bool(seen.wrong.any()):
            climb = take_rows(climb, ~seen.wrong)
            if not len(climb.rows):
                break
        if number + 1 == end:
            climb = climb.shrink(next(stage for stage in plan if end < stage[2])[0], clip)
            continue
        if number > first and (number - first) % max(1, int(_CHECKED * (end - first))) == 0:
            climb = climb.adapt()
        climb = climb.move(factor, clip)


def stages(steps: int) -> list[tuple[float, int, int]]:
    """Balls, as multiples of eps, with the first of the points 0 to `steps` looked at in each, and where it ends.

    >>> stages(10)
    [(3.0, 0, 3), (2.0, 3, 6), (1.0, 6, 11)]
    """
    ends = [0, *(math.floor(part * steps) for _, part in _BALLS[:-1]), steps + 1]
    return [(factor, low, high) for (factor, _), (low, high) in zip(_BALLS, pairwise(ends), strict=True) if low < high]


def _changed(points: Tensor, inputs: Tensor) -> Tensor:
    """How many numbers (N) differ from those of the inputs."""
    return (points != inputs).flatten(1).sum(1).double()
