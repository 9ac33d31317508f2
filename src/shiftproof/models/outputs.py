"""Calling a model that may not fit what it is given."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.execution import require_bf16

__all__ = ["check_copyable", "logits_of"]


def logits_of(model: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """The logits (N x classes) for inputs (N x shape), without gradients; a sentence where there are none.

    The inputs are copied to where and in the precision in which the model's weights are: a model may overwrite them.
    """
    weights = model.parameters() if isinstance(model, nn.Module) else iter(())
    parameter = next((one for one in weights if one.is_floating_point()), inputs)
    if parameter.dtype == torch.bfloat16 and parameter.device.type == "cpu":
        require_bf16()
    try:
        with torch.no_grad():
            logits = model(inputs.to(parameter.device, parameter.dtype, copy=True))
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"the model does not take inputs of shape {tuple(inputs.shape[1:])}: {reason}") from error
    _check_logits(logits, len(inputs))
    return logits


def check_copyable(model: nn.Module) -> None:
    """Refuse a module of which no copy can be made: certificates are computed by a copy that is frozen."""
    if isinstance(model, torch.jit.ScriptModule):
        raise ModelError(
            f"the model is TorchScript ({type(model).__name__}), which can't be copied and frozen by layer; build the "
            "module in Python and give it these weights: module.load_state_dict(scripted.state_dict())"
        )
    try:
        copy.deepcopy(model)
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(
            f"the model can't be copied ({type(error).__name__}: {reason}), which is needed to freeze it; keep locks, "
            "open files, generators and tensors with a history out of the module's attributes"
        ) from error


def _check_logits(logits: object, samples: int) -> None:
    if isinstance(logits, Mapping):
        keys = ", ".join(repr(key) for key in logits)
        raise ModelError(
            f"the model returns a {type(logits).__name__} ({keys}), not logits; wrap it in a module whose forward "
            "takes one out: return self.model(inputs)['logits'], or what the key is called"
        )
    if isinstance(logits, tuple | list):
        raise ModelError(
            f"the model returns a {type(logits).__name__} of {len(logits)}, not logits; wrap it in a module whose "
            "forward takes one out: return self.model(inputs)[0], say"
        )
    if not isinstance(logits, Tensor):
        raise ModelError(f"the model returns {type(logits).__name__}; it should return a tensor of logits")
    if logits.ndim != 2 or len(logits) != samples:
        raise ModelError(
            f"the model should return logits, one row of numbers a sample; for {samples} samples it returns a tensor "
            f"of shape {tuple(logits.shape)}"
        )
    if not logits.is_floating_point():
        raise ModelError(
            f"the model returns {str(logits.dtype).removeprefix('torch.')} values; logits are floating-point scores, "
            "one a class, before any argmax or rounding"
        )
