"""Gradient ascent inside a ball: the step that attacks and adversarial training share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from shiftproof.attacks.victim import Base, Victim, frozen
from shiftproof.execution import require_bf16
from shiftproof.models.gradients import gradient_copy
from shiftproof.models.prepare import Precision
from shiftproof.perturbations.threat import Norm, Threat, steepest
from shiftproof.types import Finding

__all__ = ["OVERSHOOT", "Rule", "ascend", "attackable", "direction", "input_gradient", "swift", "weaknesses"]

Rule = Literal["steepest", "sign", "normalised", "raw"]

OVERSHOOT = 2.5
"""All steps together are so many times as long as the radius, unless told otherwise."""


def direction(gradient: Tensor, norm: Norm, rule: Rule) -> Tensor:
    """Where a step of length 1 goes (N x ...): the best one for the norm, the signs, the unit vector, or raw."""
    if rule == "raw":
        return gradient
    norms: dict[Rule, Norm] = {"steepest": norm, "sign": "linf", "normalised": "l2"}
    return steepest(gradient, norms[rule])


def input_gradient(points: Tensor, scores: Tensor, losses: Tensor, rule: Rule) -> Tensor:
    """Of each loss (N) by its own point (N x ...); but for raw steps, up to a factor.

    Scores have one row for each point, or several, all points once and then all again.
    """
    (slopes,) = torch.autograd.grad(losses.sum(), scores)
    if rule != "raw":
        # a sure classifier has slopes that vanish on the way back through float32; their direction is what counts
        peak = slopes.reshape(-1, len(points), slopes.shape[-1]).abs().amax((0, 2))
        factor = 1 / torch.where(peak > 0, peak, 1)
        slopes = slopes * factor.repeat(len(slopes) // len(points))[:, None]
    (gradient,) = torch.autograd.grad(scores, points, slopes)
    return gradient


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
) -> Tensor:
    """Where `steps` steps up the losses lead from inputs in [0, 1], inside the ball and [0, 1] (N x ...).

    `scores` are those of `attackable`, one row an input or several; `losses` makes N numbers of them. This is the inner
    loop of adversarial training: the last point is taken, not the worst on the way, and a batch draws from one
    generator. `PGD` is for measuring.
    """
    if threat.eps == 0:
        return inputs
    length = OVERSHOOT * threat.eps / steps if step is None else step
    points = inputs
    if random_start:
        points = inputs + threat.random_start(tuple(inputs.shape), generator).to(inputs)
    with torch.enable_grad():
        for _ in range(steps):
            points = points.clamp(0, 1).detach().requires_grad_()
            said = scores(points)
            gradient = input_gradient(points, said, losses(said), rule)
            change = points.detach() - inputs + length * direction(gradient, threat.norm, rule)
            points = inputs + threat.project(change)
    return points.clamp(0, 1).detach()


def weaknesses(threat: Threat, steps: int, step: float | None, rule: Rule) -> Iterator[Finding]:
    """What keeps such an ascent from getting where it may go."""
    if step is not None and steps * step < threat.eps:
        message = f"{steps} steps of {step:g} reach {steps * step:g} from where they start, eps is {threat.eps:g}"
        yield Finding("warn", "reach", f"{message}: a larger step may find more")
    if rule == "raw":
        message = "raw gradients are next to nothing where the model is sure: such steps may find little"
        yield Finding("warn", "raw-steps", message)


@contextmanager
def attackable(model: nn.Module, inputs: Tensor, precision: Precision = "f32") -> Iterator[Callable[[Tensor], Tensor]]:
    """The model as a function of inputs alone, for many gradients: eval mode, nothing kept for its weights.

    Logits are in float64, where a sure network still has slopes. After the block the model is as it was. "bf16"
    computes in bfloat16 where torch thinks it safe, which pays on processors and accelerators that have it.
    """
    if precision == "bf16" and inputs.device.type == "cpu":
        require_bf16()
    with frozen(model):
        copy = gradient_copy(model, inputs)

        def scores(points: Tensor) -> Tensor:
            with torch.autocast(points.device.type, torch.bfloat16, enabled=precision == "bf16"):
                # a copy, because a network may overwrite what it is given
                logits: Tensor = copy(points.clone())
            return logits.double()

        yield scores


def swift(victim: Victim, inputs: Tensor) -> Victim:
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
