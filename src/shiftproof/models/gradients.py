"""A copy of a classifier for many gradients by its inputs, while its weights stay as they are."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable

import torch
from torch import Tensor, nn

from shiftproof.models.lipschitz.freeze import Freezable, freeze
from shiftproof.models.prepared.rewrite import fold
from shiftproof.models.reference import Reference

__all__ = ["gradient_copy"]

_EXAMPLES = 8
_TOLERANCE = 1e-3
"""How far the gradient at an input may be from that of the model as it is, relative to its own largest number."""


def gradient_copy(model: nn.Module, inputs: Tensor) -> nn.Module:
    """A model that gives the logits and gradients of `model`, which is in eval mode, with fewer operations.

    Weights that are computed at every pass are stored, and BatchNorm behind a convolution is folded into it. What has
    neither, can't be copied or traced, or would differ on a few of the `inputs` (N x ...), comes back as it is.
    """
    if not any(isinstance(layer, Freezable | nn.BatchNorm2d) for layer in model.modules()):
        return model
    try:
        # a model may hold what can't be copied (an activation kept for later), and fx prints where tracing failed
        with contextlib.redirect_stderr(io.StringIO()):
            stored = freeze(copy.deepcopy(model), tuple(inputs.shape[1:])).requires_grad_(False)
            folded = fold(stored)
            expected = _behaviour(model, inputs[:_EXAMPLES])
            for candidate in (folded, stored):
                if candidate is not None and _agree(_behaviour(candidate, inputs[:_EXAMPLES]), expected):
                    return candidate
    except Exception:  # noqa: BLE001  (nothing is lost: a network that fails by itself fails when it is attacked as it is)
        return model
    return model


def _behaviour(model: Callable[[Tensor], Tensor], inputs: Tensor) -> tuple[Tensor, ...]:
    """Logits, and how a mixture of them changes with the inputs: hooks can change either alone.

    Logits also without gradients: tracing loses where a model turns them on, which one that takes gradients needs.
    """
    with torch.no_grad():
        plain = model(inputs.detach().clone())
    points = inputs.detach().clone().requires_grad_()
    with torch.enable_grad():
        # a copy, because a network may overwrite what it is given
        logits = model(points.clone())
        mixture = torch.linspace(1, 2, logits.shape[1], dtype=logits.dtype, device=logits.device)
        (gradient,) = torch.autograd.grad(logits, points, mixture.expand_as(logits))
    return plain, logits.detach(), gradient


def _agree(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> bool:
    """Logits as a prepared model's are compared, and the gradients input by input: no class or input hides another."""
    (*logits, gradient), (*due, slope) = found, expected
    if not all(Reference(right, right).agrees(one, strictly=True) for one, right in zip(logits, due, strict=True)):
        return False
    if gradient.shape != slope.shape:
        return False
    largest = slope.flatten(1).abs().amax(1)
    return bool(((gradient - slope).flatten(1).abs().amax(1) <= _TOLERANCE * largest).all())
