"""A frozen copy of a classifier, made once for millions of forward passes."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, fx, nn

from shiftproof.errors import ModelError, UnknownName, UsageError
from shiftproof.execution import single_threaded
from shiftproof.models.lipschitz.freeze import freeze
from shiftproof.models.outputs import logits_of
from shiftproof.models.rewrite import Affine, Parts, head_in_f32, rewrite
from shiftproof.rng import torch_generator

__all__ = ["Backend", "Precision", "Prepared", "check_compute", "prepare"]

Precision = Literal["f32", "bf16"]
Backend = Literal["torch", "openvino"]

ACTIVATION_BYTES = 4 << 20
SMALLEST_SLICE, LARGEST_SLICE = 16, 512
EXAMPLES = 8
TOLERANCE, BF16_TOLERANCE = 1e-3, 0.1
"""How far logits may be from those of the model as it is, relative to the largest; rounding is far below."""
_SMALLEST = 1e-3
"""Logits that are all below are compared as if the largest were this: there, rounding is not far below."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A classifier, frozen: call it with inputs (N x shape) for logits in float32.

    Where it begins with a dense layer, that is split off: `rest(affine(x))` are the logits too, so that the layer's
    image of noise that many inputs share is computed once. `rest` may then overwrite its input; without `affine` it is
    the whole. `slice_size` inputs at a time keep the activations in the caches; it depends on the model alone.
    `channels_last` is how images are best stored.
    """

    rest: Callable[[Tensor], Tensor]
    affine: Affine | None
    first: nn.Module | None
    slice_size: int
    channels_last: bool
    description: str

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.rest(inputs if self.first is None else self.first(inputs))


def prepare(
    model: nn.Module,
    shape: tuple[int, ...],
    *,
    precision: Precision = "f32",
    backend: Backend = "torch",
) -> Prepared:
    """Freeze, fold, lay out and split a copy of `model` for inputs of `shape`; the model itself is not touched.

    BatchNorm behind a convolution is folded into it, ReLU overwrites what nobody else reads, images are stored with
    their channels last, and a dense first layer is split off. A model that can't be traced is only frozen.
    In bf16 the layers between a first and a last dense one compute in bfloat16; noise is added before that.
    """
    check_compute(precision, backend)
    frozen = freeze(copy.deepcopy(model).to("cpu", torch.float32).eval(), shape)
    for parameter in frozen.parameters():
        parameter.requires_grad = False
    noise = torch.randn(EXAMPLES, *shape, generator=torch_generator(0, "prepared model"))
    example = 0.5 + 0.25 * noise
    with torch.inference_mode(), single_threaded():
        expected = logits_of(frozen, example)
        parts = rewrite(frozen, shape, in_place=backend == "torch")
        # what a rewrite got wrong (hooks, draws or branches that tracing has frozen) is not used
        if parts is None or not _agrees(parts, example, expected, TOLERANCE):
            parts = Parts(frozen)
        hidden = example if parts.affine is None else parts.affine(example)
        largest = _largest_activation(parts.rest, hidden)
        fitting = max(1, ACTIVATION_BYTES // (4 * largest))
        slice_size = min(max(1 << (fitting.bit_length() - 1), SMALLEST_SLICE), LARGEST_SLICE)
        if backend == "openvino":
            from shiftproof.models.openvino import compile_for_openvino

            shape_of_slice = (slice_size, *hidden.shape[1:])
            run, version = compile_for_openvino(parts.rest, torch.zeros(shape_of_slice), precision)
            last = False
        else:
            run, version = _in_torch(parts.rest, precision), f"torch {torch.__version__.split('+')[0]}"
            last = parts.affine is None and hidden.ndim == 4 and _takes_channels_last(parts.rest, run, hidden)
        description = ", ".join([precision, *parts.steps, version])
        prepared = Prepared(run, parts.affine, parts.first, slice_size, last, description)
        whole_slice = example.repeat(-(-slice_size // EXAMPLES), *[1] * len(shape))[:slice_size]
        wanted = expected.repeat(-(-slice_size // EXAMPLES), 1)[:slice_size]
        if not _agrees(prepared, whole_slice, wanted, TOLERANCE if precision == "f32" else BF16_TOLERANCE):
            raise ModelError(
                f"the model gives other outputs for {slice_size} inputs at a time ({description}) than for {EXAMPLES}: "
                "it depends on its batch, or does not bear this precision"
            )
    return prepared


def _agrees(parts: Parts | Prepared, example: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Whether both ways through a rewritten model give the logits of the model as it is, but for rounding."""
    ways = [example if parts.first is None else parts.first(example)]
    ways += [] if parts.affine is None else [parts.affine(example)]
    if isinstance(parts, Prepared) and parts.channels_last:
        ways = [ways[0].contiguous(memory_format=torch.channels_last)]
    scale = max(_SMALLEST, float(expected[expected.isfinite()].abs().max()))
    for hidden in ways:
        try:
            # fx prints where a traced model failed; that it did is all we want to know
            with contextlib.redirect_stderr(io.StringIO()):
                logits = parts.rest(hidden.clone(memory_format=torch.preserve_format))
        except Exception:  # noqa: BLE001
            return False
        if not isinstance(logits, Tensor) or logits.shape != expected.shape:
            return False
        if not bool(((logits - expected).abs() <= tolerance * scale).logical_or(logits == expected).all()):
            return False
    return True


def _takes_channels_last(rest: nn.Module, run: Callable[[Tensor], Tensor], hidden: Tensor) -> bool:
    """Whether the model bears images with their channels last; one that views them as rows does not."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            run(hidden.contiguous(memory_format=torch.channels_last))
    except RuntimeError:
        rest.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        return False
    return True


def check_compute(precision: str, backend: str) -> None:
    """Whether there is such a precision and such a backend here."""
    if precision not in get_args(Precision):
        raise UnknownName("precision", str(precision), get_args(Precision))
    if backend not in get_args(Backend):
        raise UnknownName("backend", str(backend), get_args(Backend))
    if backend == "openvino" and importlib.util.find_spec("openvino") is None:
        raise UsageError("backend 'openvino' needs the package openvino: pip install 'shiftproof[fast]'")


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
    if precision == "f32" or not any(True for _ in rest.parameters()):
        return rest
    head = head_in_f32(rest) if isinstance(rest, fx.GraphModule) else None
    rest.to(torch.bfloat16)
    if head is not None:
        head.to(torch.float32)
    return lambda inputs: rest(inputs.to(torch.bfloat16)).to(torch.float32)
