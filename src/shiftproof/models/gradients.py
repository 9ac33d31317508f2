"""A copy of a classifier for many gradients by its inputs, while its weights stay as they are."""

from __future__ import annotations

import contextlib
import copy
import io

import torch
from torch import Tensor, nn

from shiftproof.models.lipschitz.freeze import Freezable, freeze
from shiftproof.models.rewrite import fold

__all__ = ["gradient_copy"]

_EXAMPLES = 8
_TOLERANCE = 1e-3
"""How far logits may be from those of the model as it is, relative to the largest; rounding is far below."""


def gradient_copy(model: nn.Module, inputs: Tensor) -> nn.Module:
    """A model that gives the logits of `model`, which is in eval mode, with fewer operations.

    Weights that are computed at every pass are stored, and BatchNorm behind a convolution is folded into it. What has
    neither, or can't be traced, comes back as it is. `inputs` (N x ...) are examples on which both must agree.
    """
    if not any(isinstance(layer, Freezable | nn.BatchNorm2d) for layer in model.modules()):
        return model
    stored = freeze(copy.deepcopy(model), tuple(inputs.shape[1:])).requires_grad_(False)
    folded = fold(stored)
    if folded is None or not _agree(model, folded, inputs[:_EXAMPLES]):
        return stored
    return folded.to(memory_format=torch.channels_last)  # type: ignore[no-any-return, call-overload]


def _agree(model: nn.Module, other: nn.Module, inputs: Tensor) -> bool:
    with torch.no_grad():
        expected = model(inputs)
        try:
            # fx prints where a traced model failed; that it did is all we want to know
            with contextlib.redirect_stderr(io.StringIO()):
                found = other(inputs)
        except Exception:  # noqa: BLE001
            return False
    return bool(torch.allclose(found, expected, rtol=0, atol=_TOLERANCE * max(1.0, float(expected.abs().max()))))
