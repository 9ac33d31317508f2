"""Random points of a ball: the attack that knows nothing, beside which a stronger one is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from shiftproof.attacks.ascent import fast_copy
from shiftproof.attacks.contract import ATTACKS, Attack
from shiftproof.attacks.losses import evaluate, margin
from shiftproof.attacks.pgd import Best, draw_points
from shiftproof.attacks.victim import Victim
from shiftproof.perturbations.threat import ThreatOption, random_start, random_surface
from shiftproof.types import Finding, Positive

__all__ = ["RandomPoints"]


@ATTACKS.register("noise", paper="Provably Robust Transfer, 2022", cost="points forward a sample")
@dataclass(frozen=True)
class RandomPoints(Attack):
    """The worst of `points` random points around a sample: misclassified, then of the largest margin.

    They are uniform in the ball, or on its surface (`where`). A random change of a given size is far weaker than a
    chosen one: what it leaves standing is no sign of robustness, and what it overturns is fragile.

    >>> RandomPoints("l2:0.1", points=20).passes
    20
    """

    threat: ThreatOption
    points: Positive = 100
    where: Literal["ball", "surface"] = "ball"
    clip: bool = True
    early_exit: bool = True

    seeks_worst: ClassVar[bool] = False

    def findings(self) -> Iterator[Finding]:
        """That nothing follows from what it leaves."""
        message = (
            "random points of the ball are no search for the worst: what they leave right is no sign of robustness"
        )
        yield Finding("warn", "random-points", message)

    @property
    def passes(self) -> int:
        """Scores for one sample, at most."""
        return self.points

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """The worst of the points, for every sample."""
        victim, best = fast_copy(victim, inputs), Best(inputs)
        draw = random_start if self.where == "ball" else random_surface
        leaves = self.early_exit and victim.exact
        for _ in range(self.points):
            rows = best.rows[~best.wrong] if leaves else best.rows
            if not len(rows):
                break
            tried = draw_points(draw, self.threat.norm, inputs, eps, generators, rows, self.clip)
            seen = evaluate(victim, tried, labels[rows], margin, None)
            best.update(rows, tried, seen.losses, seen.wrong)
        return best.points
