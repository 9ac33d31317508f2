"""The multilayer perceptron."""

import math
from dataclasses import dataclass

from torch import nn

from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.types import LayerCount, Positive

__all__ = ["MLP"]


@MODELS.register("mlp", cost="one product of matrices a layer")
@dataclass(frozen=True)
class MLP(Architecture):
    """Fully connected layers with ReLU; two hidden ones of 256 unless told."""

    width: Positive = 256
    depth: LayerCount = 2

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        layers: list[nn.Module] = [nn.Flatten()]
        size = math.prod(shape)
        for _ in range(self.depth):
            layers += [nn.Linear(size, self.width), nn.ReLU()]
            size = self.width
        return nn.Sequential(*layers), size
