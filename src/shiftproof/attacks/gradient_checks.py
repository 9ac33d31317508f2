"""Whether gradients can lead an attack: of each logit, inside the forward pass, and whether asking for them matters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.attacks.victim import Base
from shiftproof.rng import seeded_globals
from shiftproof.types import Finding

__all__ = ["classes_without_gradient", "gradient_mode_gap", "gradients_inside_forward"]

_SAMPLES, _CLASSES = 8, 20
_NONE = 1e-6
"""Relative to the largest gradient of a sample's logits: what is smaller, or as near to another class's, is none."""


def classes_without_gradient(victim: Base, inputs: Tensor) -> tuple[int, int]:
    """Of a few inputs (N x ...), how many have few losing classes with a gradient of their own; and how many there are.

    A losing logit that is clipped, cut off or set from the winner has no gradient, or that of another logit: a step
    does not know which class is near. Few is at most half; of many classes the first 20 are asked.
    """
    with torch.inference_mode(False), torch.enable_grad():
        points = inputs[:_SAMPLES].detach().clone().requires_grad_()
        scores = victim.scores(points)
        if not scores.requires_grad or scores.shape[1] < 3:
            return 0, len(points)
        chosen = range(min(scores.shape[1], _CLASSES))
        slopes = [torch.autograd.grad(scores[:, k].sum(), points, retain_graph=True)[0] for k in chosen]
    gradients = torch.stack(slopes, 1).flatten(2).double()
    sizes = gradients.abs().amax(2)
    least = _NONE * sizes.amax(1, keepdim=True)
    apart = torch.cdist(gradients, gradients, p=float("inf"))
    apart.diagonal(dim1=1, dim2=2).fill_(float("inf"))
    own = (sizes > least) & (apart.amin(2) > least)
    losing = torch.arange(len(chosen), device=own.device) != scores.detach().argmax(1, keepdim=True)
    few = (own & losing).sum(1) * 2 <= losing.sum(1)
    return int(few.sum()), len(points)


def gradients_inside_forward(model: nn.Module, inputs: Tensor) -> Iterator[Finding]:
    """A warning if the model takes gradients in its forward pass, as a defence that cleans its inputs does."""
    watched = {torch.autograd.grad.__code__, torch.autograd.backward.__code__}
    calls: list[CodeType] = []

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in watched:
            calls.append(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        with torch.no_grad():
            Base(model).scores(inputs[:2])
    finally:
        sys.setprofile(before)
    if calls:
        message = (
            "the model takes gradients inside its forward pass (it optimises its inputs, or adapts): attacks follow "
            "such a pass in part or not at all, so that robust accuracy may look better than it is"
        )
        yield Finding("warn", "gradients-in-forward", message, {"calls": len(calls)})


def gradient_mode_gap(model: nn.Module, inputs: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Outputs without gradients, and with the gradient that attacks ask for: a model can tell the two apart."""
    with seeded_globals(seed, "validity of attacks", 0), torch.no_grad():
        plain = Base(model).scores(inputs)
    with seeded_globals(seed, "validity of attacks", 0), torch.inference_mode(False), torch.enable_grad():
        watched = Base(model).scores(inputs.detach().clone().requires_grad_())
    return plain.double(), watched.detach().double()
