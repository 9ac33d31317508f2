"""Boxes through a head: which classes can win anywhere in a box of representations."""

from __future__ import annotations

from functools import singledispatch

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.lipschitz import GroupSort, MaxMin

__all__ = ["box_margin", "check_head", "propagate", "split_last"]

Box = tuple[Tensor, Tensor]


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
    weight, bias = last.weight.double(), _bias(last)
    differences = weight[classes][:, None] - weight[None]  # N x K x D
    middle, half = (low + high) / 2, (high - low) / 2
    margins = (differences @ middle[:, :, None] - differences.abs() @ half[:, :, None])[:, :, 0]
    margins = margins + bias[classes][:, None] - bias[None]
    margins[rows, classes] = torch.inf
    return margins.min(1).values


def check_head(head: nn.Module) -> None:
    """Refuse a head with a layer that boxes are not known to pass."""
    for layer in head.modules():
        if not list(layer.children()) and propagate.dispatch(type(layer)) is propagate.dispatch(object):
            raise ModelError(_unknown(layer))


@singledispatch
def propagate(layer: nn.Module, low: Tensor, high: Tensor) -> Box:
    """The smallest box that is known to hold what `layer` makes of a box (N x D)."""
    raise ModelError(_unknown(layer))


@propagate.register
def _(layer: nn.Sequential, low: Tensor, high: Tensor) -> Box:
    for part in layer:
        low, high = propagate(part, low, high)
    return low, high


@propagate.register
def _(layer: nn.Linear, low: Tensor, high: Tensor) -> Box:
    weight = layer.weight.double()
    middle, half = (low + high) / 2 @ weight.T + _bias(layer), (high - low) / 2 @ weight.abs().T
    return middle - half, middle + half


def _monotone(layer: nn.Module, low: Tensor, high: Tensor) -> Box:
    """A layer that never falls when an input rises: its corners are the corners."""
    return layer(low), layer(high)


# sorting a group is monotone too: raising one of its numbers lowers none of the sorted ones
for _kind in (nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.Sigmoid, nn.Identity, nn.Flatten, MaxMin, GroupSort):
    propagate.register(_kind, _monotone)


@propagate.register
def _(layer: nn.Dropout, low: Tensor, high: Tensor) -> Box:
    return low, high


@propagate.register
def _(layer: nn.BatchNorm1d, low: Tensor, high: Tensor) -> Box:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    slope = (layer.running_var.double() + layer.eps).rsqrt() * layer.weight.double()
    offset = layer.bias.double() - layer.running_mean.double() * slope
    one, other = low * slope + offset, high * slope + offset
    return torch.minimum(one, other), torch.maximum(one, other)


def split_last(head: nn.Module) -> tuple[nn.Module, nn.Linear | None]:
    """All layers but a last linear one, and that one."""
    if isinstance(head, nn.Linear):
        return nn.Identity(), head
    if isinstance(head, nn.Sequential) and len(head) and isinstance(head[-1], nn.Linear):
        return head[:-1], head[-1]
    return head, None


def _bias(layer: nn.Linear) -> Tensor:
    return torch.zeros(layer.out_features, dtype=torch.float64) if layer.bias is None else layer.bias.double()


def _unknown(layer: nn.Module) -> str:
    return f"boxes are not known to pass a layer {type(layer).__name__} of the head; use bound='lipschitz'"
