"""Which part of a model is trained, and what layers see of a minibatch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from shiftproof.errors import ModelError
from shiftproof.models import SplitModel
from shiftproof.objectives.objective import Part, Recipe
from shiftproof.types import Finding

__all__ = ["check_part", "only", "shared_findings", "to_train_mode"]


def check_part(model: nn.Module, part: Part) -> None:
    """Refuse a model that has no such part, or nothing to train in it."""
    if part == "head" and not isinstance(model, SplitModel):
        raise ModelError("the model has no head of its own to train; sp.SplitModel(encoder, head) has one")
    with only(model, part):
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ModelError(f"the model has no parameter to train{' in its head' if part == 'head' else ''}")


@contextmanager
def only(model: nn.Module, part: Part) -> Iterator[None]:
    """Keep gradients away from all else inside the block."""
    rest = model.encoder.parameters() if part == "head" and isinstance(model, SplitModel) else []
    before = [(parameter, parameter.requires_grad) for parameter in rest]
    try:
        for parameter, _ in before:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter, flag in before:
            parameter.requires_grad_(flag)


def to_train_mode(model: nn.Module, part: Part) -> None:
    """Train mode, but for an encoder that stays as it is: its BatchNorm would go on counting."""
    model.train()
    if part == "head" and isinstance(model, SplitModel):
        model.encoder.eval()


def shared_findings(model: nn.Module, recipe: Recipe, devices: list[torch.device]) -> Iterator[Finding]:
    """What layers have seen of minibatches that several processes shared out; leaves the model in eval mode."""
    size = len(devices)
    to_train_mode(model, recipe.part)
    trained = any(isinstance(layer, _BatchNorm) and layer.training for layer in model.modules())
    model.eval()
    # on accelerators BatchNorm takes those of all processes
    if trained and size > 1 and devices[0].type == "cpu":
        few = recipe.batch // size
        yield Finding(
            "warn",
            "batchnorm-shares",
            f"BatchNorm statistics are those of each process's share, {few} of the {recipe.batch} samples of a domain "
            f"in a step, and the running ones those of process 0: one process would have trained other weights",
            {"processes": size},
        )
