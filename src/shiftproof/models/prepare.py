"""A frozen copy of a classifier, made once for millions of forward passes."""

from __future__ import annotations

import copy
import importlib.util
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils import fuse_conv_bn_eval

from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.models.layers import Gray, Normalize
from shiftproof.rng import torch_generator

__all__ = ["Backend", "Precision", "Prepared", "check_compute", "prepare"]

Precision = Literal["f32", "bf16"]
Backend = Literal["torch", "openvino"]

ACTIVATION_BYTES = 4 << 20
SMALLEST_SLICE, LARGEST_SLICE = 16, 512
TOLERANCE, BF16_TOLERANCE = 1e-3, 0.1
"""How far logits may be from those of the model as it is, relative to the largest; rounding is far below."""

# what gives a new tensor that nobody else holds, so that ReLU may overwrite it
_FRESH = (nn.Conv2d, nn.BatchNorm2d, nn.Linear)
_RELUS = (F.relu, torch.relu)
_HIDDEN = "hidden_behind_first_layer"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A classifier in two parts: `rest(first(x))`.

    `first` is affine, so that first(x + e) is first(x) plus `linear(e)`, its part without the offset: the image of
    noise that many inputs share is computed once. Both are None where the model does not begin with a dense layer.
    `rest` may overwrite its input if there is a `first`. `slice_size` inputs at a time keep the activations in the
    caches; it depends on the model alone.
    """

    rest: Callable[[Tensor], Tensor]
    first: nn.Module | None
    linear: nn.Module | None
    slice_size: int
    description: str

    def __call__(self, inputs: Tensor) -> Tensor:
        """Inputs to logits in float32."""
        return self.rest(inputs if self.first is None else self.first(inputs))


def prepare(
    model: nn.Module,
    shape: tuple[int, ...],
    *,
    precision: Precision = "f32",
    backend: Backend = "torch",
    split: bool = True,
) -> Prepared:
    """Freeze, fold, lay out and split a copy of `model` for inputs of `shape`; the model itself is not touched.

    BatchNorm behind a convolution is folded into it, ReLU overwrites what nobody else reads, images are stored with
    their channels last, and a dense first layer is split off (`split`). A model that can't be traced is only frozen.
    In bf16 all layers but a last dense one compute in bfloat16; inputs are cast after noise was added.
    """
    check_compute(precision, backend)
    frozen = copy.deepcopy(model).to("cpu", torch.float32).eval().requires_grad_(False)
    noise = torch.randn(2, *shape, generator=torch_generator(0, "prepared model"))
    example = 0.5 + 0.25 * noise
    with torch.inference_mode():
        expected = _call(frozen, example)
        rewritten = _rewritten(frozen, split=split, in_place=backend == "torch")
        # what a rewrite got wrong (hooks, draws or branches that tracing has frozen) is not used
        if rewritten is not None and not _near(_call(rewritten, example), expected):
            rewritten = None
        parts = rewritten or _Parts(frozen)
        hidden = example if parts.first is None else parts.first(example)
        largest = _largest_activation(parts.rest, hidden)
        fitting = max(1, ACTIVATION_BYTES // (4 * largest))
        slice_size = min(max(1 << (fitting.bit_length() - 1), SMALLEST_SLICE), LARGEST_SLICE)
        if backend == "openvino":
            from shiftproof.models.openvino import compile_for_openvino

            shape_of_slice = (slice_size, *hidden.shape[1:])
            run, version = compile_for_openvino(parts.rest, torch.zeros(shape_of_slice), precision)
        else:
            run, version = _in_torch(parts.rest, precision), f"torch {torch.__version__.split('+')[0]}"
        prepared = Prepared(run, parts.first, parts.linear, slice_size, ", ".join([precision, *parts.steps, version]))
        tolerance = TOLERANCE if precision == "f32" else BF16_TOLERANCE
        if not _near(_call(prepared, example), expected, tolerance):
            raise ModelError(f"the model gives other outputs in {prepared.description} than as it is; use f32 in torch")
    return prepared


@dataclass(eq=False)
class _Parts:
    """A model on its way to being prepared: what becomes `Prepared`, and what was done so far."""

    rest: nn.Module
    first: nn.Module | None = None
    linear: nn.Module | None = None
    steps: tuple[str, ...] = ()

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.rest(inputs if self.first is None else self.first(inputs))  # type: ignore[no-any-return]


def _rewritten(frozen: nn.Module, *, split: bool, in_place: bool) -> _Parts | None:
    """The model with layers folded, split off and in place, or None if it can't be traced."""
    try:
        traced = fx.GraphModule(frozen, _Tracer().trace(frozen))
        parts = _Parts(traced)
        folded = _fold_batchnorm(traced)
        parts.steps += (f"{folded} BatchNorm folded",) if folded else ()
        if split:
            parts.first, parts.linear = _split_first_layer(traced)
            parts.steps += ("first layer split off",) if parts.first is not None else ()
        if in_place:
            _relu_in_place(traced)
    except Exception:  # noqa: BLE001  (control flow that depends on values, or anything else a user's forward may do)
        return None
    return parts


def _call(function: Callable[[Tensor], Tensor], example: Tensor) -> Tensor:
    try:
        # a copy: nothing may depend on the example being overwritten
        return function(example.clone())
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"the model does not take inputs of shape {tuple(example.shape[1:])}: {reason}") from error


def _near(one: Tensor, other: Tensor, tolerance: float = TOLERANCE) -> bool:
    """Whether two sets of logits are equal but for rounding."""
    if one.shape != other.shape:
        return False
    return bool((one - other).abs().max() <= tolerance * max(1.0, float(other.abs().max())))


def check_compute(precision: str, backend: str) -> None:
    """Whether there is such a precision and such a backend here."""
    if precision not in get_args(Precision):
        raise UnknownName("precision", str(precision), get_args(Precision))
    if backend not in get_args(Backend):
        raise UnknownName("backend", str(backend), get_args(Backend))
    if backend == "openvino" and importlib.util.find_spec("openvino") is None:
        raise UsageError("backend 'openvino' needs the package openvino: pip install 'shiftproof[fast]'")


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
        if not isinstance(norm, nn.BatchNorm2d) or norm.running_mean is None or not isinstance(source, fx.Node):
            continue
        conv = modules.get(str(source.target)) if source.op == "call_module" else None
        shared = calls.count(source.target) > 1 or calls.count(node.target) > 1
        if type(conv) is nn.Conv2d and len(source.users) == 1 and not shared:
            traced.set_submodule(str(source.target), fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(source)
            traced.graph.erase_node(node)
            folded += 1
    traced.recompile()
    return folded


def _relu_in_place(traced: fx.GraphModule) -> None:
    modules = _modules(traced)
    for node in list(traced.graph.nodes):
        is_module = node.op == "call_module" and isinstance(modules[str(node.target)], nn.ReLU)
        if not is_module and not (node.op == "call_function" and node.target in _RELUS):
            continue
        source = node.args[0]
        fresh = source.op == "call_module" and isinstance(modules[str(source.target)], _FRESH)
        fresh = fresh or (source.op == "call_function" and source.target in (operator.add, torch.add))
        fresh = fresh or (source.op == "placeholder" and source.target == _HIDDEN)
        if fresh and len(source.users) == 1:
            with traced.graph.inserting_before(node):
                node.replace_all_uses_with(traced.graph.call_function(torch.relu_, (source,)))
            traced.graph.erase_node(node)
    traced.recompile()


def _split_first_layer(traced: fx.GraphModule) -> tuple[nn.Module | None, nn.Module | None]:
    """Take the layers up to the first dense one out of the graph, if they are all affine."""
    modules = _modules(traced)
    entry = next(node for node in traced.graph.nodes if node.op == "placeholder")
    chain: list[fx.Node] = []
    here = entry
    while len(here.users) == 1:
        here = next(iter(here.users))
        layer = modules.get(str(here.target)) if here.op == "call_module" else None
        flattens = isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1)
        if not flattens and type(layer) not in (nn.Identity, Normalize, nn.Linear):
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
    return nn.Sequential(*layers), nn.Sequential(*map(_without_offset, layers))


def _without_offset(layer: nn.Module) -> nn.Module:
    layer = copy.deepcopy(layer)
    if isinstance(layer, nn.Linear):
        layer.register_parameter("bias", None)
    if isinstance(layer, Normalize):
        layer.mean.zero_()
    return layer


def _largest_activation(model: nn.Module, inputs: Tensor) -> int:
    """Numbers in the largest output of a layer, of one sample."""
    sizes = [inputs[0].numel()]

    def note(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim:
            sizes.append(output.numel() // len(inputs))

    hooks = [module.register_forward_hook(note) for module in model.modules() if not list(module.children())]
    try:
        model(inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return max(sizes)


def _in_torch(rest: nn.Module, precision: Precision) -> Callable[[Tensor], Tensor]:
    rest.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if precision == "f32":
        return rest
    head = _head_in_f32(rest) if isinstance(rest, fx.GraphModule) else None
    rest.to(torch.bfloat16)
    if head is not None:
        head.to(torch.float32)
    return lambda inputs: rest(inputs.to(torch.bfloat16)).to(torch.float32)


def _head_in_f32(traced: fx.GraphModule) -> nn.Module | None:
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
