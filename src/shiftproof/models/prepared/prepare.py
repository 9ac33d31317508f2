"""A frozen copy of a classifier, made once for millions of forward passes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from shiftproof.errors import ModelError
from shiftproof.execution import HERE, Compute, Precision, single_threaded
from shiftproof.models.lipschitz.freeze import freeze
from shiftproof.models.placement import CPU
from shiftproof.models.prepared.fuse import fuse
from shiftproof.models.prepared.rewrite import Affine, Parts, head_in_f32, rewrite
from shiftproof.models.prepared.slices import Slices, fitting_slice
from shiftproof.models.reference import BF16_TOLERANCE, TOLERANCE, Reference, copy_of, random_inputs
from shiftproof.models.text import text_encoder_of

__all__ = ["Prepared", "prepare"]

ACTIVATION_BYTES = 4 << 20
SMALLEST_SLICE, LARGEST_SLICE = 16, 512
TEXT_SLICE = 64
"""At least so many texts at a time: their encoder sorts them by length and reads groups that fit the caches."""
_BATCHES = (1, 2, 16, 128, 256)
"""Sizes of a batch at which a model is tried, besides its slices."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A classifier, frozen: call it with inputs (N x shape) for logits in float32.

    Where it begins with a dense layer, that is split off: `rest(affine(x))` are the logits too, so that the layer's
    image of noise that many inputs share is computed once. `rest` may then overwrite its input; without `affine` it is
    the whole. `slice_size` inputs at a time keep the activations in the caches; it depends on the model alone.
    `channels_last` is how images are best stored. `reference` is what the model itself says of a few inputs. Inputs are
    on the device `place`; `slices` cut them there, where what fits is found out on the way.
    """

    rest: Callable[[Tensor], Tensor]
    affine: Affine | None
    first: nn.Module | None
    slice_size: int
    channels_last: bool
    description: str
    reference: Reference
    tolerance: float = TOLERANCE
    place: torch.device = CPU
    slices: Slices | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.rest(inputs if self.first is None else self.first(inputs))

    def holds(self) -> bool:
        """Whether this copy still says of the reference's inputs what the model itself said of them."""
        with torch.no_grad(), single_threaded():
            logits = self(self.to_layout(self.reference.inputs.clone().to(self.place)))
        return self.reference.agrees(logits.cpu(), self.tolerance)

    def to_layout(self, images: Tensor) -> Tensor:
        """Images as they are best stored."""
        return _to_channels_last(images) if self.channels_last else images


def prepare(
    model: nn.Module,
    shape: tuple[int, ...],
    *,
    compute: Compute = HERE,
    reference: Reference | None = None,
    check_batches: bool = True,
) -> Prepared:
    """Freeze, fold, lay out and split a copy of `model` for inputs of `shape`; the model itself is not touched.

    BatchNorm behind a convolution is folded into it, ReLU overwrites what nobody else reads, images are stored with
    their channels last, convolutions have packed weights and do the sum behind them (in f32), and a dense first layer
    is split off. Each of these is compared with the `reference`, what the model itself says of a few
    inputs, and is left out if it says anything else. A model that can't be traced is only frozen. In bf16 the layers
    between a first and a last dense one compute in bfloat16; noise is added before that.
    Without `check_batches` it is asked at no other size of a batch, which is enough to measure its speed.
    """
    place, precision, backend = compute.check().place, compute.precision, compute.backend
    tolerance = TOLERANCE if precision == "f32" else BF16_TOLERANCE
    with torch.no_grad(), single_threaded():
        if reference is None:
            reference = Reference.of(model, random_inputs(shape))
        # a dense first layer is added to in float64, which some devices do not have
        split = place.type != "mps"
        parts = _equal_parts(model, shape, reference, in_place=backend == "torch", split=split)
        hidden = reference.inputs.clone() if parts.affine is None else parts.affine(reference.inputs)
        largest = _largest_activation(parts.rest, hidden.clone())
        fitting = max(1, ACTIVATION_BYTES // (4 * largest))
        smallest = SMALLEST_SLICE if text_encoder_of(model) is None else TEXT_SLICE
        slice_size = min(max(1 << (fitting.bit_length() - 1), smallest), LARGEST_SLICE)
        if backend == "openvino":
            from shiftproof.models.prepared.openvino import compile_for_openvino

            shape_of_slice = (slice_size, *hidden.shape[1:])
            run, version = compile_for_openvino(parts.rest, torch.zeros(shape_of_slice), precision)
            last = False
        else:
            run, version = _in_torch(parts.rest, precision), f"torch {torch.__version__.split('+')[0]}"
            last = parts.affine is None and hidden.ndim == 4
            if last and not _agrees_channels_last(run, hidden, reference, tolerance):
                parts.rest.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
                last = False
        on = "" if place.type == "cpu" else f" on {place.type}"
        description = ", ".join([f"{precision}{on}", *parts.steps, version])
        prepared = Prepared(run, parts.affine, parts.first, slice_size, last, description, reference, tolerance)
        if place.type != "cpu":
            prepared = _on_accelerator(prepared, place, fitting_slice(place, largest))
        elif run is parts.rest and last and (fused := _fused(prepared)) is not None:
            return fused
        with compute.exact_products():
            if check_batches:
                _check_batches(prepared)
    return prepared


def _on_accelerator(prepared: Prepared, place: torch.device, slice_size: int) -> Prepared:
    """The same network there; what it says is compared with the model itself once more."""
    assert isinstance(prepared.rest, nn.Module)
    affine = None if prepared.affine is None else prepared.affine.to(place)
    first = None if prepared.first is None else prepared.first.to(place)
    rest, slices = prepared.rest.to(place), Slices(slice_size)
    return replace(prepared, rest=rest, affine=affine, first=first, slice_size=slice_size, place=place, slices=slices)


def _equal_parts(
    model: nn.Module, shape: tuple[int, ...], reference: Reference, *, in_place: bool, split: bool = True
) -> Parts:
    """The fastest form of the model that says what the model itself says; at the least a copy of it."""
    plain = copy_of(model)
    stored = freeze(copy_of(model), shape)
    for parameter in [*plain.parameters(), *stored.parameters()]:
        parameter.requires_grad = False
    # what a rewrite got wrong (hooks, draws or branches that tracing has frozen, numbers it has rounded) is not used
    for parts in (
        rewrite(stored, shape, in_place=in_place) if split else None,
        rewrite(stored, shape, in_place=in_place, split=False),
        Parts(stored),
    ):
        if parts is not None and _agrees(parts, reference):
            return parts
    try:
        logits = plain(reference.inputs.clone())
    except Exception as error:
        raise ModelError(f"a copy of the model fails where the model does not: {_reason(error)}") from error
    if not reference.agrees(logits):
        raise ModelError(
            "a copy of the model says other things than the model itself: it is no fixed function of its input"
        )
    return Parts(plain)


def _agrees(parts: Parts, reference: Reference) -> bool:
    """Whether both ways through a rewritten model give the outputs of the model itself, but for rounding."""
    ways = [reference.inputs.clone() if parts.first is None else parts.first(reference.inputs.clone())]
    ways += [] if parts.affine is None else [parts.affine(reference.inputs)]
    try:
        # fx prints where a traced model failed; that it did is all we want to know
        with contextlib.redirect_stderr(io.StringIO()):
            # bits of a sum in another order are all that a rewrite may change
            return all(reference.agrees(parts.rest(hidden), strictly=True) for hidden in ways)
    except Exception:  # noqa: BLE001  (a rewrite that can't run is not used; the model itself is tried after it)
        return False


def _check_batches(prepared: Prepared) -> None:
    """Refuse a model whose answer for an input depends on how many or which others come with it."""
    reference, size = prepared.reference, prepared.slice_size
    shape = tuple(reference.inputs.shape[1:])
    for count in sorted({*(batch for batch in _BATCHES if batch < size), size}):
        for turn in (0, 1):
            # each example stands somewhere else, among inputs that were never seen before
            others = random_inputs(shape, count, "batch", count, turn)
            rows = torch.arange(min(count, len(reference.inputs)))
            places = rows if turn == 0 else count - 1 - rows
            others[places] = reference.inputs[rows]
            try:
                logits = prepared(prepared.to_layout(others.to(prepared.place))).cpu()
            except Exception as error:
                raise ModelError(
                    f"the model fails on {count} inputs at a time ({prepared.description}): {_reason(error)}"
                ) from error
            if not reference.subset(rows).agrees(logits[places], prepared.tolerance):
                raise ModelError(
                    f"the model gives other outputs for {count} inputs at a time ({prepared.description}) than for "
                    f"{len(reference.inputs)}: it depends on its batch, or does not bear this precision"
                )


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}".rstrip(": ")


def _to_channels_last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


def _agrees_channels_last(
    run: Callable[[Tensor], Tensor], hidden: Tensor, reference: Reference, tolerance: float
) -> bool:
    """Whether the model says the same of images with their channels last; one that views them as rows fails."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            logits = run(_to_channels_last(hidden.clone()))
    except RuntimeError:
        return False
    return reference.agrees(logits, tolerance, strictly=tolerance == TOLERANCE)


def _fused(prepared: Prepared) -> Prepared | None:
    """The same with fused convolutions, if there are any, and if it says the same whatever the size of a batch."""
    rest, reference = prepared.rest, prepared.reference
    inputs = random_inputs(tuple(reference.inputs.shape[1:]), prepared.slice_size, "fused")
    try:
        # fx prints where a traced network failed
        with contextlib.redirect_stderr(io.StringIO()):
            found = fuse(rest, _to_channels_last(inputs)) if isinstance(rest, fx.GraphModule) else None
            if found is None or not _agrees_channels_last(found[0], reference.inputs, reference, TOLERANCE):
                return None
            words = f"{found[1]} convolution{'' if found[1] == 1 else 's'} fused"
            before, version = prepared.description.rsplit(", ", 1)
            fused = replace(prepared, rest=found[0], description=f"{before}, {words}, {version}")
            _check_batches(fused)
    except Exception:  # noqa: BLE001  (torch promises nothing about these operators; there is a form without them)
        return None
    return fused


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
    if precision != "bf16" or not any(True for _ in rest.parameters()):
        return rest
    head = head_in_f32(rest) if isinstance(rest, fx.GraphModule) else None
    rest.to(torch.bfloat16)
    if head is not None:
        head.to(torch.float32)
    return _InBF16(rest)


class _InBF16(nn.Module):
    """A network whose weights are in bfloat16, for inputs and logits in float32."""

    def __init__(self, rest: nn.Module) -> None:
        super().__init__()
        self.rest = rest

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.rest(inputs.to(torch.bfloat16))
        return logits.to(torch.float32)
