"""Logits from before what a network does to them at its end: clipping, rounding, saturation, a cut gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from shiftproof.attacks.victim import Base, Victim
from shiftproof.perturbations.threat import steepest

__all__ = ["InnerLogits", "inner_logits"]

_AGREE = 0.9
"""Inner numbers are logits if, for this part of the inputs, the largest is where that of the outputs is."""
_SAME = 1e-3
"""Outputs that are inner logits but for scale and shift hide nothing; how far they may be apart, in their spread."""
_EXAMPLES = 64


@dataclass(frozen=True, eq=False)
class InnerLogits:
    """A network by numbers inside it that decide as its outputs do, and have gradients of their own.

    `place` counts the operations of a forward pass whose result has the outputs' shape. Answers are the network's.
    """

    model: nn.Module
    place: int

    classifier: ClassVar[str] = "base"
    exact: ClassVar[bool] = True
    passes: ClassVar[int] = 1

    def scores(self, inputs: Tensor) -> Tensor:
        """The inner logits; the outputs where the network took another way, and there are fewer of them."""
        wanted = torch.is_grad_enabled() and inputs.requires_grad
        with torch.enable_grad():
            # by their gradients inner logits are told from tables that do not depend on the inputs
            outputs, inner = _pass(self.model, inputs if wanted else inputs.detach().requires_grad_())
        scores = inner[self.place] if self.place < len(inner) else outputs
        return scores if wanted else scores.detach()

    def answers(self, inputs: Tensor) -> Tensor:
        """The class with the largest output."""
        return Base(self.model).answers(inputs)


def inner_logits(victim: Victim, inputs: Tensor) -> InnerLogits | None:
    """The victim by its first inner logits, for inputs (N x ...); none if its outputs are these, or there are none.

    Numbers are looked for in every operation of torch, in a module or not, whose result has a row a sample and a column
    a class, that follows from the inputs with a gradient and is not the outputs up to a scale, a shift of a row, or a
    bias; or is, while the gradients differ.
    """
    if not isinstance(victim, Base) or not len(inputs):
        return None
    with torch.inference_mode(False), torch.enable_grad():
        points = inputs[:_EXAMPLES].detach().clone().requires_grad_()
        outputs, inner = _pass(victim.model, points)
        final, slopes = outputs.detach().double(), _slopes(outputs, points)
        for place, tensor in enumerate(inner):
            values = tensor.detach().double()
            decides = float((values.argmax(1) == final.argmax(1)).double().mean()) >= _AGREE
            if not decides or not bool(values.isfinite().all()):
                continue
            own = _slopes(tensor, points)
            # of inputs that a model has made for itself there are logits, too, but no way back to what it was given
            follows = bool((own != 0).flatten(1).any(1).double().mean() >= _AGREE)
            alike = float(((own - slopes).abs().amax(1) <= _SAME).double().mean()) >= _AGREE
            if follows and not (alike and _same(values, final)):
                return InnerLogits(victim.model, place)
    return None


def _same(inner: Tensor, outputs: Tensor) -> bool:
    """Whether rows are equal up to shift and scale, or differ by the same in every row."""
    centred = [one - one.mean(1, keepdim=True) for one in (inner, outputs)]
    spread = [one.abs().amax(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny) for one in centred]
    scaled = (centred[0] / spread[0] - centred[1] / spread[1]).abs().amax()
    difference = centred[1] - centred[0]
    bias = (difference - difference.mean(0)).abs().amax() / spread[0].amax()
    return bool(torch.minimum(scaled, bias) <= _SAME)


def _slopes(table: Tensor, points: Tensor) -> Tensor:
    """Directions (N x D) in which differences of a table's numbers grow; 0 where there is no way to the points."""
    none = torch.zeros_like(points, dtype=torch.float64).flatten(1)
    if not table.requires_grad:
        return none
    # the mixture sums to 0, so that what a row is shifted by does not count
    mixture = torch.linspace(-1, 1, table.shape[1], dtype=table.dtype, device=table.device).expand_as(table)
    (slope,) = torch.autograd.grad(table, points, mixture, retain_graph=True, allow_unused=True)
    return none if slope is None else steepest(slope.double(), "l2").flatten(1)


def _pass(model: nn.Module, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and results of their shape on the way, in the order in which they were computed."""
    recorder = _Recorder(len(inputs))
    with recorder:
        outputs = Base(model).scores(inputs)
    return outputs, [one for one in recorder.tables if one.shape == outputs.shape]


class _Recorder(TorchFunctionMode):
    """Keeps every table of real numbers, a row a sample, that was computed with a gradient."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.tables: list[Tensor] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.ndim == 2 and len(result) == self.rows and result.requires_grad:
            self.tables.append(result)
        return result
