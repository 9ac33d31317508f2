"""Boxes through a head: which classes can win anywhere in a box of representations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from shiftproof.certification.bounds.interval import Box, bias_of, layers_of, passes
from shiftproof.errors import ModelError
from shiftproof.models.altered import altered
from shiftproof.models.lipschitz import GroupSort, MaxMin

__all__ = ["box_margin", "check_head", "propagate", "split_last"]

_LAYERS = frozenset({nn.Sequential, nn.Linear, nn.Identity, nn.Flatten, nn.Dropout, nn.BatchNorm1d}) | frozenset(
    {nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, MaxMin, GroupSort}
)
"""Those of which a head may be made, by exact class: a subclass may compute something else."""


def box_margin(head: nn.Module, low: Tensor, high: Tensor, classes: Tensor) -> Tensor:
    """A lower bound (N) on how far the given classes are ahead of every other one, anywhere in boxes (N x D).

    Exact for a linear head: the last linear layer is taken together with the comparison of two logits.
    """
    body, last = split_last(head)
    low, high = propagate(body, low.double(), high.double())
    rows = torch.arange(len(classes))
    if last is None:
        others = high.clone()
        others[rows, classes] = -torch.inf
        return low[rows, classes] - others.max(1).values
    weight, bias = last.weight.double(), bias_of(last)
    differences = weight[classes][:, None] - weight[None]  # N x K x D
    middle, half = (low + high) / 2, (high - low) / 2
    margins = (differences @ middle[:, :, None] - differences.abs() @ half[:, :, None])[:, :, 0]
    margins = margins + bias[classes][:, None] - bias[None]
    margins[rows, classes] = torch.inf
    return margins.min(1).values


def check_head(head: nn.Module) -> None:
    """Refuse a head with a layer that boxes are not known to pass."""
    for layer in head.modules():
        if type(layer) not in _LAYERS or altered(layer):
            why = " that has hooks" if type(layer) in _LAYERS else ""
            raise ModelError(f"boxes are not known to pass a layer {type(layer).__name__}{why} of the head")


def propagate(head: nn.Module, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest box that is known to hold what layers of a head make of a box (N x D)."""
    check_head(head)
    region = passes(Box(low, high), layers_of(head))
    assert isinstance(region, Box)
    return region.low, region.high


def split_last(head: nn.Module) -> tuple[nn.Module, nn.Linear | None]:
    """All layers but a last linear one, and that one."""
    if _plain(head, nn.Linear):
        return nn.Identity(), head  # type: ignore[return-value]
    if _plain(head, nn.Sequential) and len(head) and _plain(head[-1], nn.Linear):  # type: ignore[arg-type,index]
        return head[:-1], head[-1]  # type: ignore[index]
    return head, None


def _plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    return type(module) is kind and not altered(module)
