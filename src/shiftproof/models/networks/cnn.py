"""A small convolutional network."""

from dataclasses import dataclass

from torch import nn

from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.types import Positive

__all__ = ["CNN"]


@MODELS.register("cnn", cost="thousands of 32x32 images a second and core")
@dataclass(frozen=True)
class CNN(Architecture):
    """Four 3x3 convolutions with BatchNorm, stride 2 at the second and fourth, then the mean over pixels.

    Channels are width, width, 2 width, 2 width: 32-32-64-64 unless told.
    """

    width: Positive = 32

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        layers: list[nn.Module] = []
        channels = shape[0]
        for width, stride in ((self.width, 1), (self.width, 2), (2 * self.width, 1), (2 * self.width, 2)):
            layers += [
                nn.Conv2d(channels, width, 3, stride, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            channels = width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), channels
