"""Boxes through a head: which classes can win anywhere in a box of representations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.altered import altered
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
        _rule(layer)


def propagate(layer: nn.Module, low: Tensor, high: Tensor) -> Box:
    """The smallest box that is known to hold what `layer` makes of a box (N x D)."""
    return _rule(layer)(layer, low, high)


def _sequential(layer: nn.Sequential, low: Tensor, high: Tensor) -> Box:
    for part in layer:
        low, high = propagate(part, low, high)
    return low, high


def _linear(layer: nn.Linear, low: Tensor, high: Tensor) -> Box:
    weight = layer.weight.double()
    middle, half = (low + high) / 2 @ weight.T + _bias(layer), (high - low) / 2 @ weight.abs().T
    return middle - half, middle + half


def _rising(layer: nn.Module, low: Tensor, high: Tensor) -> Box:
    """A layer that never falls when an input rises: its corners are the corners."""
    return layer(low), layer(high)


def _leaky(layer: nn.LeakyReLU, low: Tensor, high: Tensor) -> Box:
    # with a slope below 0 it falls to 0 and rises again; looked at first, because the layer may overwrite its input
    inside = (low < 0) & (high > 0)
    one, other = layer(low), layer(high)
    least = torch.minimum(one, other)
    return torch.where(inside, least.clamp(max=0), least), torch.maximum(one, other)


def _dropout(layer: nn.Dropout, low: Tensor, high: Tensor) -> Box:
    if layer.training:
        raise ModelError("Dropout in train mode is no function; call model.eval()")
    return low, high


def _batchnorm(layer: nn.BatchNorm1d, low: Tensor, high: Tensor) -> Box:
    if layer.training or layer.running_mean is None or layer.running_var is None:
        raise ModelError("BatchNorm in train mode is no function of one input; call model.eval()")
    slope = (layer.running_var.double() + layer.eps).rsqrt()
    offset = -layer.running_mean.double() * slope
    if layer.weight is not None:
        slope, offset = slope * layer.weight.double(), offset * layer.weight.double() + layer.bias.double()
    one, other = low * slope + offset, high * slope + offset
    return torch.minimum(one, other), torch.maximum(one, other)


# by exact class: a subclass may compute something else. Sorting a group is rising too: a number that rises lowers none
# of the sorted ones
_RULES: dict[type[nn.Module], Callable[[Any, Tensor, Tensor], Box]] = {
    nn.Sequential: _sequential,
    nn.Linear: _linear,
    **dict.fromkeys((nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Identity, nn.Flatten, MaxMin, GroupSort), _rising),
    nn.LeakyReLU: _leaky,
    nn.Dropout: _dropout,
    nn.BatchNorm1d: _batchnorm,
}


def _rule(layer: nn.Module) -> Callable[[Any, Tensor, Tensor], Box]:
    if type(layer) not in _RULES or altered(layer):
        why = " that has hooks" if type(layer) in _RULES else ""
        raise ModelError(f"boxes are not known to pass a layer {type(layer).__name__}{why} of the head")
    return _RULES[type(layer)]


def split_last(head: nn.Module) -> tuple[nn.Module, nn.Linear | None]:
    """All layers but a last linear one, and that one."""
    if _plain(head, nn.Linear):
        return nn.Identity(), head  # type: ignore[return-value]
    if _plain(head, nn.Sequential) and len(head) and _plain(head[-1], nn.Linear):  # type: ignore[arg-type,index]
        return head[:-1], head[-1]  # type: ignore[index]
    return head, None


def _bias(layer: nn.Linear) -> Tensor:
    return torch.zeros(layer.out_features, dtype=torch.float64) if layer.bias is None else layer.bias.double()


def _plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    return type(module) is kind and not altered(module)
