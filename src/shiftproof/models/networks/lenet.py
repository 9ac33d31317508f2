"""LeNet, the network of many published results on MNIST and Fashion-MNIST."""

from dataclasses import dataclass

from torch import nn

from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.types import Positive

__all__ = ["LeNet"]

_KERNEL, _SMALLEST = 5, 16
"""Pixels on a side of a convolution, and those of an image of which something is left without padding."""


@MODELS.register("lenet", cost="thousands of 28x28 images a second and core")
@dataclass(frozen=True)
class LeNet(Architecture):
    """Two 5x5 convolutions, each with ReLU and the maximum of 2x2 pixels, then a hidden layer; no BatchNorm.

    Channels are width and 5 width / 2, hidden units 25 width: 20-50-500 unless told, as in the published training logs
    of Jeong et al., "Confidence-aware training of smoothed classifiers for certified robustness" (2023,
    arXiv:2212.09000). Images of less than 16 pixels on a side are padded so that convolutions keep their size.
    """

    width: Positive = 20

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        first, second, hidden = self.width, 5 * self.width // 2, 25 * self.width
        padding = 0 if min(shape[1:]) >= _SMALLEST else _KERNEL // 2
        lost = _KERNEL - 1 - 2 * padding
        rows, columns = (((side - lost) // 2 - lost) // 2 for side in shape[1:])
        return nn.Sequential(
            nn.Conv2d(shape[0], first, _KERNEL, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, _KERNEL, padding=padding),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(second * rows * columns, hidden),
            nn.ReLU(),
        ), hidden
