"""Gradient ascent inside a ball: the step that attacks and adversarial training share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch
from torch import Tensor, nn

from shiftproof.attacks.victim import Base, Victim, frozen
from shiftproof.execution import require_bf16
from shiftproof.execution.compute import TrainingPrecision
from shiftproof.models.gradients import gradient_copy
from shiftproof.perturbations.l1 import project_in_box, sparse_direction
from shiftproof.perturbations.threat import Ball, Norm, Threat, project, steepest
from shiftproof.types import Finding

__all__ = [
    "OVERSHOOT",
    "Rule",
    "ascend",
    "attackable",
    "climb",
    "climb_losses",
    "direction",
    "fast_copy",
    "in_double",
    "in_range",
    "input_gradient",
    "project_inside",
    "reach_of",
    "step_inside",
    "usual_step",
    "weaknesses",
]

Rule = Literal["steepest", "sign", "normalised", "raw"]
T = TypeVar("T", float, Tensor)

OVERSHOOT = 2.5
"""All steps together are so many times as long as the radius, unless told otherwise; in l1 thrice that, because what
goes beyond the end of a pixel's range is lost."""
_MOVED_AT_FIRST = 0.05
"""The part of an input's numbers that a first step in l1 changes."""
_CROSSING = 2.0
"""A last step in l1 changes so many times fewer numbers than it takes to use up the radius from 0 to 1 each."""


def direction(gradient: Tensor, norm: Norm, rule: Rule) -> Tensor:
    """Where a step of length 1 goes (N x ...): the best one for the norm, the signs, the unit vector, or raw."""
    if rule == "raw":
        return gradient
    norms: dict[Rule, Norm] = {"steepest": norm, "sign": "linf", "normalised": "l2"}
    return steepest(gradient, norms[rule])


def usual_step(norm: Norm, eps: T, steps: int) -> T:
    """How long one of so many steps is, unless told otherwise: for one radius or many."""
    return (3 if norm == "l1" else 1) * OVERSHOOT * eps / steps


def in_range(points: Tensor, clip: bool) -> Tensor:
    """Points in [0, 1], if they should be: from an input in there, clipping only ever shortens a change."""
    return points.clamp(0, 1) if clip else points


def project_inside(change: Tensor, inputs: Tensor, norm: Norm, eps: float | Tensor, clip: bool) -> Tensor:
    """Inputs plus changes (N x ...) that are cut to balls and, if they are clipped, to [0, 1].

    In l1 these are the nearest ones in both: a ball that is cut by the range has room elsewhere.
    """
    if norm == "l1" and clip:
        return in_range(inputs + project_in_box(change, inputs, eps), clip)
    return in_range(inputs + project(change, norm, eps), clip)


def step_inside(
    points: Tensor,
    inputs: Tensor,
    gradient: Tensor,
    length: float | Tensor,
    norm: Norm,
    eps: float | Tensor,
    *,
    rule: Rule = "steepest",
    clip: bool = True,
    done: float = 0.0,
) -> Tensor:
    """Points (N x ...) one step up their gradients, inside balls around the inputs and, if clipped, in [0, 1].

    `length` and `eps` are one for all, or a row each that goes with the points and N of them. A steepest step in l1
    would change one number, which soon is at the end of its range: many that can still move are changed at first, and
    fewer as the part `done` of all steps grows.
    """
    if norm == "l1" and rule == "steepest":
        heading = sparse_direction(gradient, _moved_in_l1(points, eps, clip, done), points if clip else None)
    else:
        heading = direction(gradient, norm, rule)
    return project_inside(points - inputs + length * heading, inputs, norm, eps, clip)


def _moved_in_l1(points: Tensor, eps: float | Tensor, clip: bool, done: float) -> Tensor:
    """How many numbers of each point change (N): from a part of them all to about as many as a worst change has."""
    first = max(1.0, _MOVED_AT_FIRST * points[0].numel())
    radii = torch.as_tensor(eps, dtype=torch.float64, device=points.device).flatten().expand(len(points))
    last = (radii / _CROSSING).clamp(1, first) if clip else torch.ones_like(radii)
    return (first * (last / first) ** done).round().long()


def input_gradient(points: Tensor, scores: Tensor, losses: Tensor, rule: Rule) -> Tensor:
    """Of each loss (N) by its own point (N x ...); but for raw steps, up to a factor.

    Scores have one row for each point, or several, all points once and then all again.
    """
    (slopes,) = torch.autograd.grad(losses.sum(), scores)
    if rule != "raw":
        # a sure classifier has slopes that vanish on the way back through float32; their direction is what counts
        peak = slopes.reshape(-1, len(points), slopes.shape[-1]).abs().amax((0, 2))
        # divided, not multiplied by the inverse, which is infinite for the smallest numbers
        slopes = slopes / torch.where(peak > 0, peak, 1).repeat(len(slopes) // len(points))[:, None]
    (gradient,) = torch.autograd.grad(scores, points, slopes)
    return gradient


def climb(
    points: Tensor,
    steps: int,
    evaluate: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    move: Callable[[Tensor, Tensor, Tensor, int], Tensor],
    *,
    leaves: bool = False,
) -> tuple[Tensor, Tensor]:
    """Take so many steps from `points` (N x ...); gives the rows that have not left on the way, and where they end.

    The one loop of gradient steps that attacks, adversarial training and measurements share. The last points have not
    been evaluated.

    Args:
        evaluate: From rows and their points to a gradient, and which of them are misclassified.
        move: From rows, points, gradient and the number of the step, from 0, to the next points.
        leaves: Whether samples are left alone as soon as they are misclassified.
    """
    rows = torch.arange(len(points), device=points.device)
    for number in range(steps):
        if not len(rows):
            break
        gradient, wrong = evaluate(rows, points)
        if leaves and bool(wrong.any()):
            left = ~wrong
            rows, points, gradient = rows[left], points[left], gradient[left]
        if len(rows):
            points = move(rows, points, gradient, number)
    return rows, points


def climb_losses(
    scores: Callable[[Tensor], Tensor],
    losses: Callable[[Tensor], Tensor],
    points: Tensor,
    steps: int,
    move: Callable[[Tensor, Tensor, Tensor, int], Tensor],
    rule: Rule,
) -> Tensor:
    """Where `climb` leads from `points` up the losses of their scores: the inner loop of adversarial training.

    The last point is taken, not the worst on the way. `scores` has one row a point or several; `losses` makes N numbers
    of them.
    """

    def evaluate(rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        points = points.detach().requires_grad_()
        logits = scores(points)
        return input_gradient(points, logits, losses(logits), rule), torch.zeros_like(rows, dtype=torch.bool)

    with torch.enable_grad():
        return climb(points.detach(), steps, evaluate, move)[1].detach()


def ascend(
    scores: Callable[[Tensor], Tensor],
    losses: Callable[[Tensor], Tensor],
    inputs: Tensor,
    threat: Threat,
    steps: int,
    generator: torch.Generator,
    *,
    step: float | None = None,
    rule: Rule = "steepest",
    random_start: bool = True,
    draw: Callable[[Callable[[int], Tensor]], Tensor] | None = None,
) -> Tensor:
    """Where `steps` steps up the losses lead from inputs in [0, 1], inside the ball and [0, 1] (N x ...).

    `scores` are those of `attackable`. A batch draws from one generator, by its own `draw`; `PGD` is for measuring.
    """
    if threat.eps == 0:
        return inputs
    length = usual_step(threat.norm, threat.eps, steps) if step is None else step
    points = inputs
    if random_start:

        def start(count: int) -> Tensor:
            return threat.random_start((count, *inputs.shape[1:]), generator)

        points = inputs + (start(len(inputs)) if draw is None else draw(start)).to(inputs)

    def move(rows: Tensor, points: Tensor, gradient: Tensor, number: int) -> Tensor:
        done = number / steps
        return step_inside(points, inputs, gradient, length, threat.norm, threat.eps, rule=rule, done=done)

    return climb_losses(scores, losses, points.clamp(0, 1), steps, move, rule).clamp(0, 1)


def reach_of(threat: Ball, steps: int, step: float | None) -> float:
    """How far from its start an attack can get: `steps` times `step`, and no farther than eps."""
    return threat.eps if step is None and steps else min(steps * (step or 0.0), threat.eps)


def weaknesses(threat: Ball, steps: int, step: float | None, rule: Rule) -> Iterator[Finding]:
    """What keeps such an ascent from getting where it may go."""
    if (reached := reach_of(threat, steps, step)) < threat.eps:
        each = "" if step is None else f" of {step:g}"
        message = f"{steps} steps{each} reach {reached:g} from where they start, eps is {threat.eps:g}"
        yield Finding("warn", "reach", f"{message}: a larger step may find more")
    if rule == "raw":
        message = "raw gradients are next to nothing where the model is sure: such steps may find little"
        yield Finding("warn", "raw-steps", message)


@contextmanager
def attackable(
    model: nn.Module, inputs: Tensor, precision: TrainingPrecision = "f32"
) -> Iterator[Callable[[Tensor], Tensor]]:
    """The model as a function of inputs alone, for many gradients: eval mode, nothing kept for its weights.

    Logits are in float64, where a sure network still has slopes. After the block the model is as it was. "bf16"
    computes in bfloat16 where torch thinks it safe, which pays on processors and accelerators that have it.
    """
    with frozen(model):
        yield in_double(gradient_copy(model, inputs), inputs, precision)


def in_double(
    function: Callable[[Tensor], Tensor], inputs: Tensor, precision: TrainingPrecision
) -> Callable[[Tensor], Tensor]:
    """The same function of points, computed in that precision on the device of the inputs, and given in float64."""
    if precision == "bf16" and inputs.device.type == "cpu":
        require_bf16()

    def scores(points: Tensor) -> Tensor:
        with torch.autocast(points.device.type, torch.bfloat16, enabled=precision == "bf16"):
            # a copy, because a network may overwrite what it is given
            return function(points.clone()).double()

    return scores


def fast_copy(victim: Victim, inputs: Tensor) -> Victim:
    """The victim for many scores and gradients: a network as it is, in eval mode, becomes a copy of fewer operations.

    Its scores are those of the victim but for rounding; the last word is the victim's own.
    """
    if not isinstance(victim, Base):
        return victim
    copy = gradient_copy(victim.model, inputs)
    if copy is not victim.model and inputs.ndim == 4 and not _takes_channels_last(copy, inputs[:2]):
        copy.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return Base(copy)


def _takes_channels_last(copy: nn.Module, few: Tensor) -> bool:
    """Store the weights with their channels last; whether the logits are then what they were."""
    with torch.no_grad():
        expected = copy(few.clone())
        try:
            found = copy.to(memory_format=torch.channels_last)(few.clone())  # type: ignore[call-overload]
        except RuntimeError:
            # a network that takes views of its activations
            return False
    return bool(((found - expected).abs() <= 1e-3 * expected.abs().max()).all())
