"""An upper bound of a network's Lipschitz constant: the product of what its layers measure."""

from __future__ import annotations

import math
from collections import OrderedDict
from itertools import chain
from typing import NamedTuple, get_args

import torch
from torch import nn

from shiftproof.errors import ModelError, UnknownConstant, UnknownName
from shiftproof.models.altered import altered
from shiftproof.models.layers import Normalized
from shiftproof.models.lipschitz.freeze import describes_forward
from shiftproof.models.lipschitz.known import KNOWN
from shiftproof.models.lipschitz.norms import Shape
from shiftproof.models.networks.resnet import PreActBlock
from shiftproof.models.split import SplitModel
from shiftproof.perturbations.threat import Norm

__all__ = ["Constant", "constants", "lipschitz_bound"]


class Constant(NamedTuple):
    """One layer of a chain: its name in the model, its class and its constant."""

    layer: str
    kind: str
    value: float


def lipschitz_bound(module: nn.Module, shape: Shape, norm: Norm = "l2") -> float:
    """An upper bound of ||f(x) - f(x')|| / ||x - x'||, both in `norm`, for inputs of `shape` (without the batch).

    It holds for the function that the weights as they are define in exact arithmetic. A class of your own states its
    constant by a method `lipschitz(norm, shape) -> float`.

    >>> lipschitz_bound(nn.Sequential(nn.Flatten(), nn.Sigmoid()), (1, 2, 2), "linf")
    0.25
    """
    return math.prod(row.value for row in constants(module, shape, norm))


def constants(module: nn.Module, shape: Shape, norm: Norm = "l2") -> list[Constant]:
    """The constant of every layer, in the order in which inputs of `shape` pass; their product is the bound."""
    if norm not in get_args(Norm):
        raise UnknownName("norm", str(norm), get_args(Norm))
    with torch.no_grad():
        return _walk("", module, tuple(shape), norm)[0]


def _walk(name: str, module: nn.Module, shape: Shape, norm: Norm) -> tuple[list[Constant], Shape]:
    """The constants, and the shape of what comes out."""
    if altered(module):
        raise UnknownConstant(f"the constant of {_called(name, module)} is not known: it has hooks, or its own forward")
    parts = _chain(module)
    if parts is None:
        value = _constant(name, module, shape, norm)
        if math.isnan(value):
            raise UnknownConstant(f"the constant of {_called(name, module)} is not a number: look at its weights")
        return [Constant(name, type(module).__name__, value)], _shape_behind(name, module, shape)
    rows: list[Constant] = []
    for part, layer in parts.items():
        more, shape = _walk(f"{name}.{part}" if name else part, layer, shape, norm)
        rows += more
    return rows, shape


def _chain(module: nn.Module) -> dict[str, nn.Module] | None:
    """The layers of a module that is nothing but layers one after the other."""
    if type(module) is nn.Sequential:
        # not named_children, which leaves out a layer that comes a second time
        return {name: layer for name, layer in module._modules.items() if layer is not None}
    if type(module) is SplitModel:
        return {"encoder": module.encoder, "head": module.head}
    if type(module) is Normalized:
        return {"normalize": module.normalize, "model": module.model}
    return None


def _constant(name: str, module: nn.Module, shape: Shape, norm: Norm) -> float:
    own = getattr(type(module), "lipschitz", None)
    if callable(own) and describes_forward(module, "lipschitz"):
        return float(own(module, norm, shape))
    if type(module) is PreActBlock:
        return _residual(name, module, shape, norm)
    if type(module) not in KNOWN:
        raise UnknownConstant(f"the constant of {_called(name, module)} is not known")
    try:
        return KNOWN[type(module)](module, shape, norm)
    except UnknownConstant as error:
        raise UnknownConstant(f"{error} ({_called(name, module)})") from error


def _residual(name: str, block: PreActBlock, shape: Shape, norm: Norm) -> float:
    """The sum moves by at most what the branch and the shortcut move; ReLU has 1."""

    def product(**layers: nn.Module) -> float:
        rows, _ = _walk(name, nn.Sequential(OrderedDict(layers)), shape, norm)
        return math.prod(row.value for row in rows)

    branch = product(norm1=block.norm1, conv1=block.conv1, norm2=block.norm2, conv2=block.conv2)
    return branch + (1 if block.shortcut is None else product(norm1=block.norm1, shortcut=block.shortcut))


def _shape_behind(name: str, layer: nn.Module, shape: Shape) -> Shape:
    like = next(chain(layer.parameters(), layer.buffers()), torch.zeros(()))
    try:
        return tuple(layer(torch.zeros(1, *shape, dtype=like.dtype, device=like.device)).shape[1:])
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"{_called(name, layer)} does not take inputs of shape {shape}: {reason}") from error


def _called(name: str, module: nn.Module) -> str:
    kind = type(module).__name__
    return f"layer {name!r} ({kind})" if name else f"the layer {kind}"
