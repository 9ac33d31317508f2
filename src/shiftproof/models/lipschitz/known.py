"""The Lipschitz constants of torch's layers, and of those that stand in front of a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.errors import UnknownConstant
from shiftproof.models.layers import Gray, Normalize
from shiftproof.models.lipschitz.norms import Shape, convolution_norm, matrix_norm
from shiftproof.perturbations.norms import Norm, norm_of_ones

__all__ = ["KNOWN"]


def _linear(layer: nn.Linear, _shape: Shape, norm: Norm) -> float:
    return matrix_norm(layer.weight, norm)


def _conv(layer: nn.Conv2d, shape: Shape, norm: Norm) -> float:
    if layer.padding_mode != "zeros":
        raise UnknownConstant(f"the constant of a convolution is known for zero padding, not {layer.padding_mode!r}")
    kernel = _spread(layer.weight, _pair(layer.dilation))
    return convolution_norm(kernel, _image(shape), norm, stride=_pair(layer.stride), groups=layer.groups)


def _spread(kernel: Tensor, dilation: tuple[int, int]) -> Tensor:
    """A dilated kernel with its zeros written out."""
    height, width = ((size - 1) * step + 1 for size, step in zip(kernel.shape[-2:], dilation, strict=True))
    spread = kernel.new_zeros(*kernel.shape[:2], height, width)
    spread[..., :: dilation[0], :: dilation[1]] = kernel.detach()
    return spread


def _batchnorm(layer: Any, _shape: Shape, _norm: Norm) -> float:
    if layer.training or layer.running_var is None:
        raise UnknownConstant("BatchNorm in train mode has no constant; call model.eval()")
    scale = 1 / (layer.running_var.double() + layer.eps).sqrt()
    return float((scale if layer.weight is None else layer.weight.detach().double().abs() * scale).max())


def _dropout(layer: Any, _shape: Shape, _norm: Norm) -> float:
    if layer.training:
        raise UnknownConstant("Dropout in train mode has no constant; call model.eval()")
    return 1.0


def _normalize(layer: Normalize, shape: Shape, _norm: Norm) -> float:
    if len(layer.std) not in (1, shape[0]):
        raise UnknownConstant(f"Normalize of {len(layer.std)} channels would repeat an image that has {shape[0]}")
    return 1 / float(layer.std.double().abs().min())


def _avgpool(layer: nn.AvgPool2d, shape: Shape, norm: Norm) -> float:
    if layer.ceil_mode or (_pair(layer.padding) != (0, 0) and not layer.count_include_pad):
        raise UnknownConstant("the constant of AvgPool2d is known if all windows have the same number of pixels")
    size = _pair(layer.kernel_size)
    pixels = layer.divisor_override or math.prod(size)
    kernel = torch.full((1, 1, *size), 1 / pixels, dtype=torch.float64)
    return convolution_norm(kernel, _image(shape), norm, stride=_pair(layer.stride))


def _mean(layer: nn.AdaptiveAvgPool2d, shape: Shape, norm: Norm) -> float:
    if layer.output_size not in (1, (1, 1)):
        raise UnknownConstant(f"the constant of AdaptiveAvgPool2d is known for output 1, not {layer.output_size}")
    pixels = math.prod(_image(shape))
    return 1 / norm_of_ones(pixels, norm)


def _maxpool(layer: nn.MaxPool2d, _shape: Shape, norm: Norm) -> float:
    """By how many windows see one pixel: a window's maximum moves no more than the pixel that moves most."""
    windows = 1
    for size, step, spread in zip(*map(_pair, (layer.kernel_size, layer.stride, layer.dilation)), strict=True):
        windows *= -(-size // (step // math.gcd(step, spread)))
    return norm_of_ones(windows, norm)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _image(shape: Shape) -> tuple[int, int]:
    return shape[-2], shape[-1]


def _one(_layer: Any, _shape: Shape, _norm: Norm) -> float:
    return 1.0


# by exact class: a subclass may compute something else
KNOWN: dict[type[nn.Module], Callable[[Any, Shape, Norm], float]] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv,
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d), _batchnorm),
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d), _dropout),
    **dict.fromkeys((nn.Identity, nn.Flatten, nn.ReLU, nn.Tanh, Gray), _one),
    nn.LeakyReLU: lambda layer, _shape, _norm: max(1.0, abs(layer.negative_slope)),
    nn.Sigmoid: lambda _layer, _shape, _norm: 0.25,
    Normalize: _normalize,
    nn.AvgPool2d: _avgpool,
    nn.AdaptiveAvgPool2d: _mean,
    nn.MaxPool2d: _maxpool,
}
