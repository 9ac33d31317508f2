"""Whether gradients can lead an attack: of each logit, inside the forward pass, and whether asking for them matters."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from shiftproof.attacks.victim import Base
from shiftproof.rng import seeded_globals, torch_generator
from shiftproof.types import Finding

__all__ = ["classes_without_gradient", "gradient_mode_gap", "gradients_inside_forward"]

_SAMPLES, _CLASSES = 8, 20
_NONE = 1e-6
"""Relative to the largest gradient of a sample's logits: what is smaller, or as near to another class's, is none."""


def classes_without_gradient(victim: Base, inputs: Tensor) -> tuple[int, int]:
    """Of a few inputs (N x ...), how many have few losing classes with a gradient of their own; and how many there are.

    A losing logit that is clipped, cut off or set from the winner has no gradient, or that of another logit: a step
    does not know which class is near. Few is at most three in four; of many classes the first 20 are asked.
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
    few = (own & losing).sum(1) * 4 <= losing.sum(1) * 3
    return int(few.sum()), len(points)


def gradients_inside_forward(model: nn.Module, inputs: Tensor) -> Iterator[Finding]:
    """A warning if the model takes gradients in its forward pass, as a defence that cleans its inputs does.

    Watched in all threads, on samples, between them and under noise: some defences clean only what looks odd.
    """
    takers: list[Any] = [torch.autograd.grad, torch.autograd.backward, torch.func.jvp, torch.func.vjp, torch.func.grad]
    takers += [torch.func.jacfwd, torch.func.jacrev, forward_ad.make_dual]
    watched = {one.__code__ for one in takers if hasattr(one, "__code__")}
    calls: list[CodeType] = []

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in watched:
            calls.append(frame.f_code)

    few = inputs[:_SAMPLES]
    noise = torch.rand(few.shape, generator=torch_generator(0, "gradients in forward")).to(few)
    points = torch.cat([few, (few + few.flip(0)) / 2, (few + noise) / 2])
    with _profile(watch), torch.no_grad():
        Base(model).scores(points)
    if calls:
        message = (
            "the model takes gradients inside its forward pass (it optimises its inputs, or adapts): attacks follow "
            "such a pass in part or not at all, so that robust accuracy may look better than it is"
        )
        yield Finding("warn", "gradients-in-forward", message, {"calls": len(calls)})


@contextmanager
def _profile(watch: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Let `watch` see every call inside the block, in all threads."""
    before: Any = sys.getprofile()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield
    finally:
        # cProfile's object is no function that can be set again; it is switched on instead
        known = before if callable(before) else None
        sys.setprofile(known)
        threading.setprofile(known)
        if known is not before:
            before.enable()


def gradient_mode_gap(model: nn.Module, inputs: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Outputs without gradients, and with the gradient that attacks ask for: a model can tell the two apart."""
    with seeded_globals(seed, "validity of attacks", 0), torch.no_grad():
        plain = Base(model).scores(inputs)
    with seeded_globals(seed, "validity of attacks", 0), torch.inference_mode(False), torch.enable_grad():
        watched = Base(model).scores(inputs.detach().clone().requires_grad_())
    return plain.double(), watched.detach().double()
