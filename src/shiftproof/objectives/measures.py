"""What several objectives measure: errors and divergences of one sample each, noisy copies, representations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models import SplitModel
from shiftproof.perturbations.noise import Noise, as_noise
from shiftproof.types import Batch

__all__ = [
    "cross_entropy",
    "divergence",
    "draw_normal",
    "draw_uniform",
    "error_of",
    "noise_of",
    "noisy_copies",
    "noisy_logits",
    "split",
    "spread",
]


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Of each sample (N), from logits (N x K)."""
    return F.cross_entropy(logits, labels, reduction="none")


def error_of(outputs: Tensor, labels: Tensor) -> Tensor:
    """Of each sample (N): cross-entropy of logits (N x K), or where labels are numbers the squared error (N x 1).

    >>> error_of(torch.tensor([[3.0], [1.0]]), torch.tensor([2.5, 1.0]))
    tensor([0.2500, 0.0000])
    """
    return (outputs[:, 0] - labels) ** 2 if labels.is_floating_point() else cross_entropy(outputs, labels)


def divergence(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p || q) along the last dimension, from logarithms of probabilities.

    >>> divergence(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]).log())
    tensor(0.1438)
    """
    return F.kl_div(log_q, log_p, reduction="none", log_target=True).sum(-1)


def noisy_copies(batch: Batch, sigma: float, samples: int, generator: torch.Generator) -> Tensor:
    """A batch's inputs (N x ...) with normal noise: samples * N of them, all inputs once and then all again."""
    inputs = batch.inputs
    draws = spread(batch, inputs.shape[1:], sigma, generator, samples).flatten(0, 1).to(inputs)
    return inputs.repeat(samples, *[1] * (inputs.ndim - 1)) + draws


def noisy_logits(model: nn.Module, batch: Batch, sigma: float, samples: int, generator: torch.Generator) -> Tensor:
    """Logits (samples x N x K) of noisy copies of a batch's inputs (N x ...), in one pass."""
    logits: Tensor = model(noisy_copies(batch, sigma, samples, generator))
    return logits.reshape(samples, len(batch.inputs), -1)


def noise_of(sigma: float) -> Noise | None:
    """Normal noise as something to select by; none if there is none."""
    return as_noise(f"gaussian:{sigma!r}") if sigma > 0 else None


def spread(
    batch: Batch, shape: Sequence[int], sigma: float, generator: torch.Generator, copies: int | None = None
) -> Tensor:
    """Normal draws of standard deviation `sigma` for every sample of a batch: N x shape, or copies x N x shape."""
    return sigma * draw_normal(batch, shape, generator, copies)


def draw_normal(batch: Batch, shape: Sequence[int], generator: torch.Generator, copies: int | None = None) -> Tensor:
    """Standard normal draws for every sample of a batch: N x shape, or copies x N x shape."""
    before = () if copies is None else (copies,)
    return batch.draw(
        lambda count: torch.randn((*before, count, *shape), generator=generator, device=generator.device), len(before)
    )


def draw_uniform(batch: Batch, size: int, generator: torch.Generator) -> Tensor:
    """Draws from -1 to 1 for every sample of a batch (N x size)."""
    return batch.draw(lambda count: 2 * torch.rand((count, size), generator=generator, device=generator.device) - 1)


def split(model: nn.Module, objective: str) -> SplitModel:
    """The model, if it has a representation to speak of."""
    if not isinstance(model, SplitModel):
        raise ModelError(f"{objective} needs a model with an encoder and a head: sp.SplitModel(encoder, head)")
    return model
