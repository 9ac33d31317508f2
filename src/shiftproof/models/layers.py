"""Layers in front of a network: images enter in [0, 1], whatever the network behind wants."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError

__all__ = ["Gray", "Normalize", "Normalized"]


class Normalize(nn.Module):
    """(x - mean) / std, channel by channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(value > 0 for value in std):
            raise ModelError(f"mean {list(mean)} and std {list(std)} need one value a channel, std above 0")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """N x C x H x W in, the same shape out."""
        return (inputs - self.mean) / self.std


class Normalized(nn.Module):
    """A model with its normalisation inside, so that eps, sigma and radii keep the units of [0, 1].

    >>> Normalized(nn.Flatten(), mean=[0.5], std=[0.25])(torch.ones(1, 1, 1, 1))
    tensor([[2.]])
    """

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.normalize = Normalize(mean, std)
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        """Inputs in [0, 1] to logits."""
        return self.model(self.normalize(inputs))  # type: ignore[no-any-return]


class Gray(nn.Module):
    """The brightest channel alone: what is left of an image when colour can't be seen."""

    def forward(self, inputs: Tensor) -> Tensor:
        """N x C x H x W to N x 1 x H x W."""
        return inputs.amax(1, keepdim=True)
