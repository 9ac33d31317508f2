"""The convolutional network that moves no two points apart."""

import math
from dataclasses import dataclass

from torch import nn

from shiftproof.models.lipschitz import CayleyConv2d, CayleyLinear, MaxMin
from shiftproof.models.lipschitz.activations import Even
from shiftproof.models.networks.architecture import MODELS, Architecture

__all__ = ["CNNCayley"]

_FEATURES = 256


@MODELS.register(
    "cnn-cayley", paper="Trockman & Kolter, ICLR 2021; GLEAN", cost="a linear system a frequency, layer and step"
)
@dataclass(frozen=True)
class CNNCayley(Architecture):
    """Three orthogonal 3x3 convolutions of stride 2 and a dense layer, with MaxMin: 1-Lipschitz in l2.

    Channels are width, 2 width, 2 width: 32-64-64 unless told.
    """

    width: Even = 32

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        layers: list[nn.Module] = []
        channels, *size = shape
        for width in (self.width, 2 * self.width, 2 * self.width):
            layers += [CayleyConv2d(channels, width, stride=2), MaxMin()]
            channels, size = width, [-(-side // 2) for side in size]
        layers += [nn.Flatten(), CayleyLinear(channels * math.prod(size), _FEATURES), MaxMin()]
        return nn.Sequential(*layers), _FEATURES
