"""What a model itself says of a few inputs: faster copies, other processes and later moments are compared with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.outputs import logits_of
from shiftproof.rng import torch_generator

__all__ = ["BF16_TOLERANCE", "TOLERANCE", "Reference", "copy_of", "random_inputs"]

TOLERANCE, BF16_TOLERANCE = 1e-3, 0.25
"""How far an output may be off, relative to what it would take to change the answer."""
_ROUNDING = 64 * 2.0**-24
"""How far float32 may be off, relative to the number itself: sums in another order."""
_RANDOM = 8


@dataclass(frozen=True, eq=False)
class Reference:
    """Inputs (N x shape) and the model's own outputs for them (N x K, float32).

    An output may differ by a fraction of what would change the answer: its distance to the largest of its row, and the
    usual lead of a winner. Nothing about that is absolute, so that logits of 1e-6 are compared as those of 1 are, and
    a class that is masked by -1e10 hides no error of the others.
    """

    inputs: Tensor
    outputs: Tensor

    @classmethod
    def of(cls, model: nn.Module, inputs: Tensor) -> Reference:
        """What the model says now, in float32."""
        outputs = _plain_outputs(model, inputs)
        if bool((outputs.isnan() | outputs.isposinf()).any()):
            raise ModelError("the model returns values that are not numbers (NaN or infinite) on noisy inputs")
        return cls(inputs, outputs)

    def agrees(self, outputs: Tensor, tolerance: float = TOLERANCE, *, strictly: bool = False) -> bool:
        """Whether other outputs for the same inputs are those of the same function, but for rounding.

        `strictly` also compares every output with how much it varies over the inputs: no rewriting needs more.
        """
        if not isinstance(outputs, Tensor) or outputs.shape != self.outputs.shape:
            return False
        scale = torch.minimum(self._to_change, self._variation) if strictly else self._to_change
        expected = self.outputs.double()
        allowed = tolerance * scale + _ROUNDING * expected.abs()
        apart = (outputs.double() - expected).abs()
        return bool((apart <= allowed).logical_or(outputs == self.outputs).all())

    def holds_for(self, model: Callable[[Tensor], Tensor], tolerance: float = TOLERANCE) -> bool:
        """Whether a model, asked now, still says the same."""
        return self.agrees(_plain_outputs(model, self.inputs), tolerance)

    def subset(self, rows: Tensor) -> Reference:
        """Some of the inputs, compared as all of them are."""
        part = Reference(self.inputs[rows], self.outputs[rows])
        vars(part).update(_to_change=self._to_change[rows], _variation=self._variation[rows])
        return part

    @cached_property
    def _to_change(self) -> Tensor:
        """What an output would have to move by to become the largest of its row, with the mean lead of a winner."""
        expected = self.outputs.double()
        if expected.shape[1] < 2:
            return self._variation
        lead = expected.topk(2, dim=1).values
        leads = (lead[:, 0] - lead[:, 1]).nan_to_num(0, 0, 0)
        return expected.amax(1, keepdim=True) - expected + leads.mean()

    @cached_property
    def _variation(self) -> Tensor:
        """How far apart the values of each output are over the inputs."""
        expected = self.outputs.double()
        known = torch.where(expected.isfinite(), expected, expected[expected.isfinite()].mean())
        return (known.amax(0) - known.amin(0)).expand_as(expected)


def random_inputs(shape: tuple[int, ...], count: int = _RANDOM, *keys: str | int) -> Tensor:
    """Gray images with noise (count x shape), the same for the same keys."""
    return 0.5 + 0.25 * torch.randn(
        count, *shape, generator=torch_generator(0, "reference inputs", *keys), dtype=torch.float32
    )


def copy_of(model: nn.Module) -> nn.Module:
    """A copy on the CPU in eval mode, in float32 unless it mixes precisions; a sentence where none can be made."""
    try:
        copied = copy.deepcopy(model).to("cpu").eval()
        # a model of several kinds of numbers casts between them itself
        kinds = {one.dtype for one in model.parameters() if one.is_floating_point()}
        return copied.to(torch.float32) if len(kinds) == 1 else copied
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(
            f"the model can't be copied ({type(error).__name__}: {reason}); a frozen copy of it is what is evaluated"
        ) from error


def _plain_outputs(model: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """The outputs of a model as it is; one of fewer bits than float32 is asked in float32."""
    if isinstance(model, nn.Module):
        kinds = {one.dtype for one in model.parameters() if one.is_floating_point()}
        if kinds - {torch.float32, torch.float64}:
            model = copy_of(model)
    return logits_of(model, inputs).float().cpu()
