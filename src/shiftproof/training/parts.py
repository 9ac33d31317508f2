"""Which part of a model is trained."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from shiftproof.errors import ModelError
from shiftproof.models import SplitModel
from shiftproof.objectives.objective import Part

__all__ = ["check_part", "only", "to_train_mode"]


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
