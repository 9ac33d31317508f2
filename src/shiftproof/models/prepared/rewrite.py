"""Rewriting a frozen network, layer by layer, into an equal one that is faster."""

from __future__ import annotations

import operator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules import module as _module
from torch.nn.utils import fuse_conv_bn_eval

from shiftproof.models.altered import altered
from shiftproof.models.layers import Gray, Normalize

__all__ = ["Affine", "Parts", "fold", "head_in_f32", "rewrite"]

# what gives a new tensor that nobody else holds, so that ReLU may overwrite it
_FRESH = (nn.Conv2d, nn.BatchNorm2d, nn.Linear)
_RELUS = (F.relu, torch.relu)
_HIDDEN = "hidden_behind_first_layer"
_ASKS = {"isinstance", "issubclass", "type", "is_tensor", "hasattr", "callable", "Proxy"}
_ASKS |= {"random", "time", "perf_counter", "monotonic"}
_SMALLEST_STD = 1e-6
"""Below, an input that is divided by it may overflow in float32, which the layer in float64 would not."""


@dataclass(frozen=True, eq=False)
class Affine:
    """A dense first layer together with what comes before it: weight (outputs x inputs) and bias, in float64."""

    weight: Tensor
    bias: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        """Inputs (N x shape) to what the layer gives."""
        return (inputs.flatten(1).double() @ self.weight.T + self.bias).to(torch.float32)

    def to(self, place: torch.device) -> Affine:
        """The same on another device."""
        return Affine(self.weight.to(place), self.bias.to(place))


@dataclass(eq=False)
class Parts:
    """A model on its way to being prepared: what becomes `Prepared`, and what was done so far."""

    rest: nn.Module
    affine: Affine | None = None
    first: nn.Module | None = None
    steps: tuple[str, ...] = ()


def rewrite(frozen: nn.Module, shape: tuple[int, ...], *, in_place: bool, split: bool = True) -> Parts | None:
    """The model with layers folded, in place and, with `split`, split off; None if it can't be traced."""
    if not _shows_all_it_does(frozen):
        return None
    try:
        traced = fx.GraphModule(frozen, _Tracer().trace(frozen))
        parts = Parts(traced)
        folded = _fold_batchnorm(traced)
        parts.steps += (f"{folded} BatchNorm folded",) if folded else ()
        if split:
            parts.affine, parts.first = _split_first_layer(traced, shape)
            parts.steps += ("first layer split off",) if parts.affine is not None else ()
        if in_place:
            _relu_in_place(traced)
    except Exception:  # noqa: BLE001  (control flow that depends on values, or anything else a user's forward may do)
        return None
    return parts


def fold(frozen: nn.Module) -> nn.Module | None:
    """The model with BatchNorm folded into convolutions, or None if it can't be traced."""
    if not _shows_all_it_does(frozen):
        return None
    try:
        traced = fx.GraphModule(frozen, _Tracer().trace(frozen))
        _fold_batchnorm(traced)
    except Exception:  # noqa: BLE001  (as above)
        return None
    return traced


def _shows_all_it_does(model: nn.Module) -> bool:
    """Whether tracing `forward` sees everything that a call of the model does.

    It does not see hooks, a `forward` or `__call__` that somebody put in place of a layer's own, and takes one side of
    whatever asks what kind of object an input is, catches exceptions, draws numbers or looks at a clock.
    """
    if _module._global_forward_hooks or _module._global_forward_pre_hooks:
        return False
    for layer in model.modules():
        if altered(layer) or type(layer).__call__ is not nn.Module.__call__:
            return False
        code = getattr(type(layer).forward, "__code__", None)
        own = not type(layer).__module__.startswith(("torch.nn.", "shiftproof."))
        if own and (code is None or _ASKS & {*code.co_names, *code.co_freevars} or code.co_exceptiontable):
            return False
    return True


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return isinstance(module, Normalize | Gray) or super().is_leaf_module(module, name)


def _modules(traced: fx.GraphModule) -> dict[str, nn.Module]:
    return dict(traced.named_modules())


def _fold_batchnorm(traced: fx.GraphModule) -> int:
    """Fold every BatchNorm whose only input is a convolution that nobody else reads; how many there were."""
    modules, folded = _modules(traced), 0
    calls = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    for node in list(traced.graph.nodes):
        norm = modules.get(str(node.target)) if node.op == "call_module" else None
        source = node.args[0] if node.args else None
        if type(norm) is not nn.BatchNorm2d or norm.running_mean is None or not isinstance(source, fx.Node):
            continue
        conv = modules.get(str(source.target)) if source.op == "call_module" else None
        shared = calls.count(source.target) > 1 or calls.count(node.target) > 1
        if type(conv) is nn.Conv2d and len(source.users) == 1 and not shared and _plain(conv) and _plain(norm):
            traced.set_submodule(str(source.target), fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(source)
            traced.graph.erase_node(node)
            folded += 1
    traced.recompile()
    return folded


def _plain(layer: nn.Module) -> bool:
    return not (altered(layer) or layer._backward_hooks or layer._backward_pre_hooks)


def _relu_in_place(traced: fx.GraphModule) -> None:
    modules = _modules(traced)
    for node in list(traced.graph.nodes):
        is_module = node.op == "call_module" and type(modules[str(node.target)]) is nn.ReLU
        if not is_module and not (node.op == "call_function" and node.target in _RELUS):
            continue
        source = node.args[0]
        fresh = source.op == "call_module" and type(modules[str(source.target)]) in _FRESH
        fresh = fresh or (source.op == "call_function" and source.target in (operator.add, torch.add))
        fresh = fresh or (source.op == "placeholder" and source.target == _HIDDEN)
        if fresh and len(source.users) == 1:
            with traced.graph.inserting_before(node):
                node.replace_all_uses_with(traced.graph.call_function(torch.relu_, (source,)))
            traced.graph.erase_node(node)
    traced.recompile()


def _split_first_layer(traced: fx.GraphModule, shape: tuple[int, ...]) -> tuple[Affine | None, nn.Module | None]:
    """Take a dense layer over the whole input out of the graph, with what comes before, if the input meets it first."""
    modules = _modules(traced)
    entry = next(node for node in traced.graph.nodes if node.op == "placeholder")
    chain: list[fx.Node] = []
    here, flat = entry, len(shape) == 1
    while len(here.users) == 1:
        here = next(iter(here.users))
        layer = modules.get(str(here.target)) if here.op == "call_module" else None
        flattens = isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1)
        flat = flat or flattens
        normalizes = type(layer) is Normalize and not flat and bool((layer.std.abs() >= _SMALLEST_STD).all())
        if not (flattens or normalizes or type(layer) is nn.Identity or (flat and type(layer) is nn.Linear)):
            return None, None
        chain.append(here)
        if isinstance(layer, nn.Linear):
            break
    else:
        return None, None
    layers = [modules[str(node.target)] for node in chain]
    with traced.graph.inserting_before(entry):
        hidden = traced.graph.placeholder(_HIDDEN)
    chain[-1].replace_all_uses_with(hidden)
    for node in [*reversed(chain), entry]:
        traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return _affine(layers, shape), nn.Sequential(*layers)


def _affine(layers: list[nn.Module], shape: tuple[int, ...]) -> Affine:
    dense = layers[-1]
    assert isinstance(dense, nn.Linear)
    slope, offset = torch.ones(shape, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    for layer in layers:
        if isinstance(layer, Normalize):
            std = layer.std.double()
            slope, offset = slope / std, (offset - layer.mean.double()) / std
    weight = dense.weight.double()
    bias = weight @ offset.flatten() + (0.0 if dense.bias is None else dense.bias.double())
    return Affine(weight * slope.flatten(), bias)


def head_in_f32(traced: fx.GraphModule) -> nn.Module | None:
    """Cast in front of a last dense layer: logits of eight bits would tie."""
    output = next(node for node in traced.graph.nodes if node.op == "output")
    last = output.args[0]
    head = _modules(traced).get(str(last.target)) if isinstance(last, fx.Node) and last.op == "call_module" else None
    if not isinstance(head, nn.Linear) or not isinstance(last, fx.Node):
        return None
    with traced.graph.inserting_before(last):
        last.update_arg(0, traced.graph.call_method("float", (last.args[0],)))
    traced.recompile()
    return head
