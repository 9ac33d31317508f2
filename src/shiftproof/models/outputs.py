"""Calling a model that may not fit what it is given."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.execution import require_bf16

__all__ = ["logits_of"]


def logits_of(model: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """The logits (N x classes) for inputs (N x shape), without gradients; a sentence where there are none.

    The inputs are copied to where and in the precision in which the model's weights are: a model may overwrite them.
    """
    parameter = next(model.parameters(), inputs) if isinstance(model, nn.Module) else inputs
    if parameter.dtype == torch.bfloat16 and parameter.device.type == "cpu":
        require_bf16()
    try:
        with torch.no_grad():
            logits = model(inputs.to(parameter.device, parameter.dtype, copy=True))
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"the model does not take inputs of shape {tuple(inputs.shape[1:])}: {reason}") from error
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(inputs):
        raise ModelError("the model should return logits, one row of numbers a sample")
    return logits
