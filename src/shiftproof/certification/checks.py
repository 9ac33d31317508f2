"""What must be true of a classifier before anything is certified: it is one fixed function of one input."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.domains import Domain
from shiftproof.errors import DataError, ModelError, UsageError
from shiftproof.execution import single_threaded
from shiftproof.models.outputs import logits_of
from shiftproof.rng import torch_generator

__all__ = ["check_classifier", "examples"]

EXAMPLES = 4
TOLERANCE = 1e-3
"""Of logits, relative to the largest: rounding is a thousand times smaller, a changed function far larger."""


def check_classifier(model: nn.Module, domain: Domain) -> int:
    """Refuse a model that is not one fixed function of a single input; return how many classes it tells apart.

    A guarantee is about a function. A model in train mode, with dropout, with statistics of the batch, or with a random
    draw inside is none.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is {type(model).__name__}; it should be a torch.nn.Module that returns logits")
    if not len(domain):
        raise DataError(f"domain {domain.name!r} has no samples to certify")
    if model.training:
        raise ModelError("the model is in train mode, in which it is not one fixed function; call model.eval() first")
    for name, layer in model.named_modules():
        if layer.training:
            raise ModelError(f"layer {name!r} ({type(layer).__name__}) is in train mode; call model.eval() first")
    inputs = examples(domain)
    with torch.inference_mode(), single_threaded():
        logits = _logits(model, inputs)
        classes = logits.shape[1]
        if classes < 2:
            raise ModelError("the model has one class: there is nothing to certify")
        if classes < len(domain.classes):
            raise ModelError(f"the model has {classes} outputs, but the data has {len(domain.classes)} classes")
        if not torch.equal(logits, _logits(model, inputs)):
            raise ModelError("the model is random: the same inputs give other outputs, so that no guarantee can hold")
        alone = torch.cat([_logits(model, one[None]) for one in inputs])
        other = torch.cat([_logits(model, torch.stack([one, 1 - one]))[:1] for one in inputs])
    if _differ(logits, alone) or _differ(logits, other):
        raise ModelError(
            "the model's output for a sample depends on the other samples in its batch (BatchNorm with the batch's own "
            "statistics?), so that no guarantee for one sample can hold"
        )
    return int(classes)


def examples(domain: Domain) -> Tensor:
    """A few samples of the domain and as many noisy ones: noise is what the model will see."""
    inputs = domain.take(np.linspace(0, len(domain) - 1, min(EXAMPLES, len(domain)), dtype=np.int64))[0]
    noise = torch.randn(inputs.shape, generator=torch_generator(0, "classifier check"))
    return torch.cat([inputs, inputs + 0.5 * noise])


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    logits = logits_of(model, inputs)
    # minus infinity is how some models say never
    if not bool((logits.isfinite() | logits.isneginf()).all() and logits.max(1).values.isfinite().all()):
        raise ModelError("the model returns values that are not numbers (NaN or infinite)")
    return logits.float().cpu()


def _differ(one: Tensor, other: Tensor) -> bool:
    scale = max(1.0, float(one[one.isfinite()].abs().max()))
    return not bool(((one - other).abs() <= TOLERANCE * scale).logical_or(one == other).all())
