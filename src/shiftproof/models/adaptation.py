"""BatchNorm statistics of a copy of a model, adapted to noise: "Adversarially trained models with test-time
covariate shift adaptation" (submitted to ICLR 2022).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError, UsageError
from shiftproof.models.placement import device_of
from shiftproof.perturbations.noise import Gaussian, Noise, draw, label
from shiftproof.rng import numpy_generator, torch_generator

__all__ = ["adapt_batchnorm", "batchnorm_layers", "statistics_hash"]

BATCH = 512
_KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


def adapt_batchnorm(
    model: nn.Module, inputs: Tensor, noise: Noise | float, *, momentum: float = 1.0, batch: int = BATCH, seed: int = 0
) -> nn.Module:
    """A copy of `model` in eval mode whose BatchNorm statistics are those of `inputs` (N x ...) under a noise.

    A number is the standard deviation of Gaussian noise; 0 is none.

    With momentum m, a statistic becomes m times the one measured plus 1 - m times the one trained: of means and of
    variances, as published. While measuring, BatchNorm normalises by the batch and nothing else is in train
    mode: no dropout, no gradient. Over several batches the statistics are those of all samples together.
    """
    if not 0 <= momentum <= 1:
        raise UsageError(f"momentum is {momentum}; it should be from 0, which keeps the trained statistics, to 1")
    if len(inputs) < 2:
        raise UsageError(f"BatchNorm is adapted to {len(inputs)} images; a variance needs more")
    adapted = copy.deepcopy(model).eval()
    layers = batchnorm_layers(adapted)
    if not layers:
        raise ModelError("the model has no BatchNorm with running statistics, so that there is nothing to adapt")
    noisy = _with_noise(inputs, noise, seed).to(device_of(model))
    # a batch of one has no variance: the rest goes into the batches before it
    pieces = noisy.tensor_split(max(1, len(noisy) // batch))
    with torch.no_grad(), _measuring(layers) as measured:
        for piece in pieces:
            adapted(piece)
    for name, layer in layers.items():
        assert layer.running_mean is not None
        assert layer.running_var is not None
        mean, variance = measured[name].result(name)
        layer.running_mean.copy_(momentum * mean + (1 - momentum) * layer.running_mean.double())
        layer.running_var.copy_(momentum * variance + (1 - momentum) * layer.running_var.double())
    return adapted


def _with_noise(inputs: Tensor, noise: Noise | float, seed: int) -> Tensor:
    """Each input with a draw of its own."""
    if not isinstance(noise, Noise) or isinstance(noise, Gaussian):
        sigma = noise.sigma if isinstance(noise, Gaussian) else noise
        return inputs + sigma * torch.randn(inputs.shape, generator=torch_generator(seed, "adaptation"))
    if noise.embedded or noise.kind != "image":
        raise UsageError(f"BatchNorm is adapted to noise on images, not to {label(noise)}")
    shape, generator = tuple(inputs.shape[1:]), numpy_generator(seed, "adaptation")
    draws = draw(noise, shape, len(inputs), generator) * noise.scale
    return noise.apply(inputs, torch.from_numpy(draws).float())


def statistics_hash(model: nn.Module) -> str:
    """A hash of all BatchNorm statistics of a model: what a certificate of an adapted model rests on."""
    digest = hashlib.blake2b(digest_size=8)
    for name, layer in batchnorm_layers(model).items():
        assert layer.running_mean is not None
        assert layer.running_var is not None
        for values in (layer.running_mean, layer.running_var):
            digest.update(name.encode() + values.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


class _Moments:
    """Sums over all samples and positions, channel by channel."""

    def __init__(self) -> None:
        self.count, self.sum, self.squares = 0, torch.zeros(()), torch.zeros(())

    def add(self, values: Tensor) -> None:
        """Values N x C x ..."""
        flat = values.detach().double().transpose(0, 1).flatten(1)
        self.count += flat.shape[1]
        self.sum = self.sum + flat.sum(1)
        self.squares = self.squares + (flat**2).sum(1)

    def result(self, name: str) -> tuple[Tensor, Tensor]:
        """Mean, and the variance that normalisation uses: over N, not over N - 1."""
        if self.count == 0:
            raise ModelError(f"BatchNorm layer {name!r} was not reached, so that it can't be adapted")
        mean = self.sum / self.count
        return mean, (self.squares / self.count - mean**2).clamp_min(0)


@contextmanager
def _measuring(layers: dict[str, BatchNorm]) -> Iterator[dict[str, _Moments]]:
    """Let layers normalise by the batch, note what they see, and leave their statistics as they were."""
    measured = {name: _Moments() for name in layers}
    kept = {name: copy.deepcopy(layer.state_dict()) for name, layer in layers.items()}
    hooks = [
        layer.register_forward_pre_hook(lambda _layer, given, moments=measured[name]: moments.add(given[0]))
        for name, layer in layers.items()
    ]
    try:
        for layer in layers.values():
            layer.train()
        yield measured
    finally:
        for hook in hooks:
            hook.remove()
        for name, layer in layers.items():
            layer.eval()
            layer.load_state_dict(kept[name])


def batchnorm_layers(model: nn.Module) -> dict[str, BatchNorm]:
    """The layers that have statistics to adapt, by name."""
    return {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, _KINDS) and layer.running_mean is not None
    }
