"""Balls and boxes of inputs through a whole network: what its layers can make of them, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.altered import altered
from shiftproof.models.layers import Gray, Normalize, Normalized
from shiftproof.models.lipschitz import GroupSort, MaxMin, ScaledAvgPool2d
from shiftproof.models.networks.resnet import PreActBlock
from shiftproof.models.split import SplitModel
from shiftproof.perturbations.norms import DUALS, Norm

__all__ = ["Box", "InputBall", "bias_of", "layers_of", "leads", "passes"]


@dataclass(frozen=True, eq=False)
class Box:
    """Everything between two corners (N x ...)."""

    low: Tensor
    high: Tensor

    @property
    def middle(self) -> Tensor:
        """Of the corners."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> Tensor:
        """Half the way between them."""
        return (self.high - self.low) / 2

    def through(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Middle and largest move (N x ... rows) of products with rows of weights (... x rows x D)."""
        middle, half = self.middle[..., None], self.half[..., None]
        return (weight @ middle)[..., 0], (weight.abs() @ half)[..., 0]


@dataclass(frozen=True, eq=False)
class InputBall:
    """The points c + s u with u of a norm of at most eps; centre c is N x ..., scale s is 1 x ..., above 0.

    Layers that act on each number alone keep it a ball; the first dense layer or convolution makes a box of it.
    """

    centre: Tensor
    scale: Tensor
    norm: Norm
    eps: float

    @property
    def box(self) -> Box:
        """The smallest one around it: in every one of the norms a number moves by eps at most."""
        return Box(self.centre - self.eps * self.scale, self.centre + self.eps * self.scale)

    def through(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Middle and largest move of products with rows of weights (... x rows x D), by the dual norm: exact."""
        length = torch.linalg.vector_norm(weight * self.scale, DUALS[self.norm], dim=-1)
        return (weight @ self.centre[..., None])[..., 0], self.eps * length.expand(*self.centre.shape[:-1], -1)


Region = Box | InputBall


def layers_of(model: nn.Module) -> list[nn.Module]:
    """The layers that inputs pass one after the other; refuses a network with a layer that regions can't pass."""
    if altered(model):
        raise ModelError(f"boxes are not known to pass {type(model).__name__}, which has hooks or its own forward")
    kind = type(model)
    if kind is nn.Sequential:
        # not children(), which leaves out a layer that comes a second time
        return [layer for part in model._modules.values() if part is not None for layer in layers_of(part)]
    if isinstance(model, SplitModel) and kind is SplitModel:
        return layers_of(model.encoder) + layers_of(model.head)
    if isinstance(model, Normalized) and kind is Normalized:
        return [model.normalize, *layers_of(model.model)]
    if kind not in _RULES:
        raise ModelError(f"boxes are not known to pass a layer {kind.__name__}")
    return [model]


def passes(region: Region, layers: list[nn.Module]) -> Region:
    """What the layers make of a region, at most."""
    for layer in layers:
        region = _RULES[type(layer)](layer, region)
    return region


def leads(layers: list[nn.Module], region: Region, classes: Tensor) -> tuple[Tensor, Tensor]:
    """The least and largest logit (each N x K) of every class over that of the given classes (N), anywhere in a region.

    A last dense layer is taken together with the comparison of two logits, so that a linear network is exact.
    """
    last = layers[-1] if layers and type(layers[-1]) is nn.Linear else None
    region = passes(region, layers[:-1] if isinstance(last, nn.Linear) else layers)
    if not isinstance(last, nn.Linear):
        box = _box(region)
        rows = torch.arange(len(classes))
        low, high = box.low - box.high[rows, classes][:, None], box.high - box.low[rows, classes][:, None]
        low[rows, classes] = high[rows, classes] = 0.0
        return low, high
    weight, bias = last.weight.double(), bias_of(last)
    middle, move = region.through(weight[None] - weight[classes][:, None])
    middle = middle + bias[None] - bias[classes][:, None]
    return middle - move, middle + move


def _box(region: Region) -> Box:
    return region if isinstance(region, Box) else region.box


def _linear(layer: nn.Linear, region: Region) -> Box:
    if (region.low if isinstance(region, Box) else region.centre).ndim != 2:
        raise ModelError("boxes are not known to pass a Linear that is not behind a Flatten")
    if isinstance(region, Box):
        weight = layer.weight.double()
        middle, move = region.middle @ weight.T + bias_of(layer), region.half @ weight.abs().T
    else:
        middle, move = region.through(layer.weight.double())
        middle = middle + bias_of(layer)
    return Box(middle - move, middle + move)


def _conv(layer: nn.Conv2d, region: Region) -> Box:
    if layer.padding_mode != "zeros":
        raise ModelError(f"boxes are known to pass a convolution with zero padding, not {layer.padding_mode!r}")

    def convolved(values: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.conv2d(values, weight, bias, layer.stride, layer.padding, layer.dilation, layer.groups)

    weight, bias = layer.weight.double(), None if layer.bias is None else layer.bias.double()
    if isinstance(region, Box):
        middle, move = convolved(region.middle, weight, bias), convolved(region.half, weight.abs())
    else:
        middle = convolved(region.centre, weight, bias)
        if region.norm == "l1":
            # the largest weight, whether or not it is over the border: at most too much
            move = (weight.abs().amax((1, 2, 3)) * region.scale.max() * region.eps)[:, None, None]
        else:
            order = DUALS[region.norm]
            move = region.eps * convolved(region.scale**order, weight.abs() ** order).clamp(min=0) ** (1 / order)
    return Box(middle - move, middle + move)


def _by_channel(layer: Any, region: Region) -> Region:
    """A factor and an offset for every channel, after statistics or a mean that are fixed."""
    if isinstance(layer, Normalize):
        slope, offset = 1 / layer.std.double(), -layer.mean.double() / layer.std.double()
    else:
        slope, offset = _normalising(layer)
        shape = (-1, *[1] * (_dimensions(region) - 2))
        slope, offset = slope.view(shape), offset.view(shape)
    if isinstance(region, InputBall) and len(slope) in (1, region.centre.shape[1]):
        return replace(region, centre=region.centre * slope + offset, scale=region.scale * slope.abs())
    # a mean for more channels than there are repeats the image, which then moves farther than the ball says
    box = _box(region)
    one, other = box.low * slope + offset, box.high * slope + offset
    return Box(torch.minimum(one, other), torch.maximum(one, other))


def _dimensions(region: Region) -> int:
    return (region.low if isinstance(region, Box) else region.centre).ndim


def _normalising(layer: Any) -> tuple[Tensor, Tensor]:
    if layer.training or layer.running_mean is None or layer.running_var is None:
        raise ModelError("BatchNorm in train mode is no function of one input; call model.eval()")
    slope = (layer.running_var.double() + layer.eps).rsqrt()
    offset = -layer.running_mean.double() * slope
    if layer.weight is not None:
        slope, offset = slope * layer.weight.double(), offset * layer.weight.double() + layer.bias.double()
    return slope, offset


def _flatten(layer: nn.Flatten, region: Region) -> Region:
    if isinstance(region, Box):
        return Box(layer(region.low), layer(region.high))
    return replace(region, centre=layer(region.centre), scale=layer(region.scale))


def _rising(layer: nn.Module, region: Region) -> Box:
    """A layer that never falls when an input rises: its corners are the corners."""
    box = _box(region)
    return Box(layer(box.low), layer(box.high))


def _leaky(layer: nn.LeakyReLU, region: Region) -> Box:
    # with a slope below 0 it falls to 0 and rises again; looked at first, because the layer may overwrite its input
    box = _box(region)
    inside = (box.low < 0) & (box.high > 0)
    one, other = layer(box.low), layer(box.high)
    least = torch.minimum(one, other)
    return Box(torch.where(inside, least.clamp(max=0), least), torch.maximum(one, other))


def _same(_layer: nn.Module, region: Region) -> Region:
    return region


def _dropout(layer: Any, region: Region) -> Region:
    if layer.training:
        raise ModelError("Dropout in train mode is no function; call model.eval()")
    return region


def _residual(block: PreActBlock, region: Region) -> Box:
    """The sum of what the branch and the shortcut can be, each by itself."""
    active = _rising(nn.ReLU(), _by_channel(block.norm1, region))
    hidden = _rising(nn.ReLU(), _by_channel(block.norm2, _conv(block.conv1, active)))
    branch = _conv(block.conv2, hidden)
    beside = _box(region) if block.shortcut is None else _conv(block.shortcut, active)
    return Box(branch.low + beside.low, branch.high + beside.high)


def bias_of(layer: nn.Linear) -> Tensor:
    """The bias in float64; zeros if there is none."""
    return torch.zeros(layer.out_features, dtype=torch.float64) if layer.bias is None else layer.bias.double()


# by exact class: a subclass may compute something else. Means, maxima and sorting never fall when an input rises
_RULES: dict[type[nn.Module], Callable[[Any, Any], Region]] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv,
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, Normalize), _by_channel),
    nn.Flatten: _flatten,
    nn.Identity: _same,
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d), _dropout),
    **dict.fromkeys((nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.MaxPool2d, ScaledAvgPool2d, Gray), _rising),
    **dict.fromkeys((nn.ReLU, nn.ReLU6, nn.Tanh, nn.Sigmoid, nn.Softplus, GroupSort, MaxMin), _rising),
    nn.LeakyReLU: _leaky,
    PreActBlock: _residual,
}
