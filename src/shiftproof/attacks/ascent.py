"""Gradient ascent inside a ball: the step that attacks and adversarial training share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from shiftproof.attacks.victim import frozen
from shiftproof.models.gradients import gradient_copy
from shiftproof.models.prepare import Precision
from shiftproof.perturbations.threat import Norm, Threat, steepest
from shiftproof.types import Finding

__all__ = ["OVERSHOOT", "Rule", "ascend", "attackable", "direction", "weaknesses"]

Rule = Literal["steepest", "sign", "normalised", "raw"]

OVERSHOOT = 2.5
"""All steps together are so many times as long as the radius, unless told otherwise."""


def direction(gradient: Tensor, norm: Norm, rule: Rule) -> Tensor:
    """Where a step of length 1 goes (N x ...): the best one for the norm, the signs, the unit vector, or raw."""
    if rule == "raw":
        return gradient
    norms: dict[Rule, Norm] = {"steepest": norm, "sign": "linf", "normalised": "l2"}
    return steepest(gradient, norms[rule])


def ascend(
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

    `losses` gives N numbers for N inputs. This is the inner loop of adversarial training: the last point is taken, not
    the worst on the way, and a batch draws from one generator. `PGD` is for measuring.
    """
    if threat.eps == 0:
        return inputs
    length = OVERSHOOT * threat.eps / steps if step is None else step
    points = inputs
    if random_start:
        points = inputs + threat.random_start(tuple(inputs.shape), generator).to(inputs)
    for _ in range(steps):
        points = points.clamp(0, 1).detach().requires_grad_()
        (gradient,) = torch.autograd.grad(losses(points).sum(), points)
        change = points.detach() - inputs + length * direction(gradient, threat.norm, rule)
        points = inputs + threat.project(change)
    return points.clamp(0, 1)


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

    After the block the model is as it was. "bf16" computes in bfloat16 where torch thinks it safe, which pays on
    processors and accelerators that have it.
    """
    with frozen(model):
        copy = gradient_copy(model, inputs)

        def scores(points: Tensor) -> Tensor:
            with torch.autocast(points.device.type, torch.bfloat16, enabled=precision == "bf16"):
                logits: Tensor = copy(points)
            return logits.float()

        yield scores
