"""The multilayer perceptron that moves no two points apart."""

import math
from dataclasses import dataclass

from torch import nn

from shiftproof.models.lipschitz import CayleyLinear, MaxMin
from shiftproof.models.lipschitz.activations import Even
from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.types import LayerCount

__all__ = ["MLPCayley"]


@MODELS.register(
    "mlp-cayley", paper="Trockman & Kolter, ICLR 2021; GLEAN", cost="that of mlp, and a linear system a layer and step"
)
@dataclass(frozen=True)
class MLPCayley(Architecture):
    """Orthogonal layers with MaxMin, an encoder that is 1-Lipschitz in l2; two hidden ones of 256 unless told."""

    width: Even = 256
    depth: LayerCount = 2

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        layers: list[nn.Module] = [nn.Flatten()]
        size = math.prod(shape)
        for _ in range(self.depth):
            layers += [CayleyLinear(size, self.width), MaxMin()]
            size = self.width
        return nn.Sequential(*layers), size
