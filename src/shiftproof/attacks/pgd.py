"""Projected gradient ascent inside a ball."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import torch
import torch.nn.functional as F
from annotated_types import Ge, Interval
from torch import Tensor

from shiftproof.attacks.ascent import OVERSHOOT, Rule, direction, input_gradient, weaknesses
from shiftproof.attacks.attack import ATTACKS
from shiftproof.attacks.victim import Victim
from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.perturbations.threat import ThreatOption, as_threat, project, random_start, random_surface
from shiftproof.types import Finding, Positive

__all__ = ["PGD"]

Objective = Literal["ce", "margin"] | Callable[[Tensor, Tensor], Tensor]


@ATTACKS.register("pgd", paper="Madry et al. 2018", cost="steps + 1 + directions forward, steps backward a sample")
@dataclass(frozen=True)
class PGD:
    """Projected gradient ascent on a loss; the best point on the way is kept: misclassified, then of highest loss.

    A step is 2.5 eps / `steps` long unless `step` says otherwise. `rule`: "steepest" for the threat's norm, "sign",
    "normalised" (l2), or "raw", the gradient as it is. `loss`: "ce", "margin", or a function of scores (N x classes)
    and labels (N) that gives N numbers. `directions` random points on the surface of the ball are tried as well.

    `steps` times `step` below eps never gets to the surface from where it starts (see `reach`), and raw steps are as
    short as the gradient: where a classifier is sure, that is next to nothing.
    """

    threat: ThreatOption
    steps: Positive = 20
    step: Annotated[float, Interval(gt=0, lt=math.inf)] | None = None
    rule: Rule = "steepest"
    random_start: bool = True
    loss: Objective = "ce"
    directions: Annotated[int, Ge(0)] = 0
    clip: bool = True
    early_exit: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "threat", as_threat(self.threat))
        if self.steps < 1 or self.directions < 0:
            raise UsageError(f"steps is {self.steps} and directions {self.directions}; at least 1 and 0 are needed")
        if self.step is not None and not 0 < self.step < math.inf:
            raise UsageError(f"step is {self.step!r}; it should be a finite number above 0")
        if self.rule not in get_args(Rule):
            raise UnknownName("rule", str(self.rule), get_args(Rule))
        if not callable(self.loss) and self.loss not in _LOSSES:
            raise UnknownName("loss", str(self.loss), _LOSSES)

    @property
    def reach(self) -> float:
        """How far from its start the attack can get, in steps of norm 1: `steps` times `step`, and no farther than eps.

        >>> PGD("l2:0.5", steps=8, step=0.01).reach
        0.08
        """
        return self.threat.eps if self.step is None else min(self.steps * self.step, self.threat.eps)

    def findings(self) -> Iterator[Finding]:
        """What weakens the attack."""
        return weaknesses(self.threat, self.steps, self.step, self.rule)

    @property
    def passes(self) -> int:
        """Scores for one sample, at most."""
        return self.steps + 1 + self.directions

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """The worst point on the way, for every sample."""
        norm, best = self.threat.norm, _Best(inputs)
        length = OVERSHOOT * eps / self.steps if self.step is None else torch.full_like(eps, self.step)
        length = length.reshape(-1, *[1] * (inputs.ndim - 1))
        active = best.rows
        points = inputs + _drawn(random_start, self, inputs, eps, generators) if self.random_start else inputs
        points = self._in_range(points)
        for number in range(self.steps + 1):
            last = number == self.steps
            losses, wrong, gradient = self._look(victim, points, labels[active], with_gradient=not last)
            best.offer(active, points, losses, wrong)
            if last:
                break
            if self.early_exit and victim.exact:
                left = ~wrong
                active, points, gradient = active[left], points[left], gradient[left]
                if not len(active):
                    break
            change = points - inputs[active] + length[active] * direction(gradient, norm, self.rule)
            points = self._in_range(inputs[active] + project(change, norm, eps[active]))
        for _ in range(self.directions):
            active = best.rows[~best.wrong] if self.early_exit and victim.exact else best.rows
            if not len(active):
                break
            mine = [generators[row] for row in active.tolist()]
            points = self._in_range(inputs[active] + _drawn(random_surface, self, inputs[active], eps[active], mine))
            losses, wrong, _ = self._look(victim, points, labels[active], with_gradient=False)
            best.offer(active, points, losses, wrong)
        return best.points

    def _look(
        self, victim: Victim, points: Tensor, labels: Tensor, with_gradient: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Losses (N), which are misclassified (N), and the gradient of the losses (N x ..., or nothing)."""
        points = points.detach().requires_grad_(with_gradient)
        with torch.set_grad_enabled(with_gradient):
            scores = victim.scores(points).double()
            losses = self.loss(scores, labels) if callable(self.loss) else _LOSSES[self.loss](scores, labels)
        if losses.shape != labels.shape:
            raise UsageError(f"the loss gives numbers of shape {tuple(losses.shape)} for {len(labels)} samples")
        if bool(losses.isnan().any()):
            raise ModelError("the model returns values that are not numbers (NaN), or the loss makes such of them")
        gradient = self._gradient(points, scores, losses) if with_gradient else torch.empty(0)
        return losses.detach(), scores.detach().argmax(1) != labels, gradient

    def _gradient(self, points: Tensor, scores: Tensor, losses: Tensor) -> Tensor:
        """Of each loss by its own point; but for raw steps, up to a factor."""
        if not (scores.requires_grad and losses.requires_grad):
            raise ModelError("the model's output has no gradient with respect to its input, which PGD needs")
        gradient = input_gradient(points, scores, losses, self.rule)
        if not bool(gradient.isfinite().all()):
            raise ModelError("the gradient of the loss with respect to the input is not finite")
        return gradient

    def _in_range(self, points: Tensor) -> Tensor:
        # from an input in [0, 1], clipping only ever shortens a change: the point stays in the ball
        return points.clamp(0, 1) if self.clip else points


class _Best:
    """The worst point so far of every sample: one that is misclassified before one that is not, then by loss."""

    def __init__(self, inputs: Tensor) -> None:
        self.points = inputs.clone()
        self.rows = torch.arange(len(inputs), device=inputs.device)
        self.losses = torch.full((len(inputs),), -math.inf, device=inputs.device, dtype=torch.float64)
        self.wrong = torch.zeros(len(inputs), dtype=torch.bool, device=inputs.device)

    def offer(self, rows: Tensor, points: Tensor, losses: Tensor, wrong: Tensor) -> None:
        """Take points (of the samples `rows`) that are worse."""
        higher = (wrong == self.wrong[rows]) & (losses > self.losses[rows])
        taken = (wrong & ~self.wrong[rows]) | higher
        chosen = rows[taken]
        self.points[chosen] = points.detach()[taken]
        self.losses[chosen] = losses[taken].double()
        self.wrong[chosen] = wrong[taken]


def _drawn(
    draw: Callable[..., Tensor], attack: PGD, inputs: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
) -> Tensor:
    shape = (1, *inputs.shape[1:])
    unit = torch.cat([draw(shape, attack.threat.norm, 1.0, generator) for generator in generators])
    return unit.to(inputs) * eps.reshape(-1, *[1] * (inputs.ndim - 1))


def _cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores, labels, reduction="none")


def _margin(scores: Tensor, labels: Tensor) -> Tensor:
    """By how much the best other class is ahead."""
    own = F.one_hot(labels, scores.shape[1]).bool()
    return scores.masked_fill(own, -math.inf).amax(1) - scores.gather(1, labels[:, None])[:, 0]


_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"ce": _cross_entropy, "margin": _margin}
