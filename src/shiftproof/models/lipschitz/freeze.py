"""Lipschitz weights computed once, before millions of passes."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.execution import single_threaded
from shiftproof.models.altered import altered

__all__ = ["Freezable", "describes_forward", "freeze", "frozen"]


class Freezable(nn.Module, ABC):
    """A layer that computes its weight at every pass, and can be replaced by one that stores it."""

    @abstractmethod
    def frozen(self, shape: tuple[int, ...]) -> nn.Module:
        """A layer with the same outputs for inputs of `shape`; the weight is computed in float64."""


def frozen(model: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """A copy for inputs of `shape`, in eval mode, in which every weight that is computed at each pass is stored.

    Later changes to the model, by training or `load_state_dict`, do not reach the copy.
    """
    return freeze(copy.deepcopy(model).eval(), shape)


def freeze(model: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """Replace every layer of `model` that can be frozen, in place; what comes back is to be used.

    A layer with hooks, with a forward of a subclass's own, or that sees inputs of several shapes is left as it is.
    A model without such layers is not run.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, Freezable) and _can_be_replaced(layer)]
    if not layers:
        return model
    # in one thread, so that every process gets the same bits
    with torch.no_grad(), single_threaded():
        shapes = _shapes(model, layers, shape)
        stored = {layer: layer.frozen(*seen).eval() for layer, seen in shapes.items() if len(seen) == 1}
    # a layer that is used in two places has two names
    for name, layer in list(model.named_modules(remove_duplicate=False)):
        if isinstance(layer, Freezable) and layer in stored:
            if not name:
                return stored[layer]
            model.set_submodule(name, stored[layer])
    return model


def _shapes(model: nn.Module, layers: list[Freezable], shape: tuple[int, ...]) -> dict[Freezable, set[tuple[int, ...]]]:
    """The shapes, without the batch, that each layer sees when the model sees inputs of `shape`."""
    shapes: dict[Freezable, set[tuple[int, ...]]] = {layer: set() for layer in layers}

    def note(layer: Any, inputs: tuple[Tensor, ...]) -> None:
        shapes[layer].add(tuple(inputs[0].shape[1:]))

    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    weight = next(layers[0].parameters())
    try:
        model(torch.zeros(1, *shape, dtype=weight.dtype, device=weight.device))
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"the model does not take inputs of shape {shape}: {reason}") from error
    finally:
        for hook in hooks:
            hook.remove()
    return shapes


def _can_be_replaced(layer: nn.Module) -> bool:
    return not altered(layer) and describes_forward(layer, "frozen")


def describes_forward(layer: nn.Module, method: str) -> bool:
    """Whether what `method` says is of the layer's forward, and not inherited by a subclass that computes otherwise."""
    says, does = (next(cls for cls in type(layer).__mro__ if name in vars(cls)) for name in (method, "forward"))
    return issubclass(says, does)
