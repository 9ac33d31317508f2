"""Wide residual networks for small images."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator
from torch import nn

from shiftproof.errors import UsageError
from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.models.networks.resnet import PreActBlock
from shiftproof.types import Positive

__all__ = ["WideResNet"]


def _checked_depth(depth: int) -> int:
    if depth < 10 or depth % 6 != 4:
        below = depth - (depth - 4) % 6
        near = f"the nearest are {below} and {below + 6}" if depth > 10 else "the smallest is 10"
        raise UsageError(f"depth of model 'wide-resnet' is {depth}; it should be 6n + 4: {near}")
    return depth


@MODELS.register(
    "wide-resnet",
    paper="Zagoruyko & Komodakis 2016",
    cost="about 9 images 28x28 a second and core at width 10, 450 at width 1",
)
@dataclass(frozen=True)
class WideResNet(Architecture):
    """Three stages of (depth - 4) / 6 pre-activation blocks with 16, 32 and 64 times `width` channels.

    28-10 is the published one, with 640 features. The "WideResNet-32-10" of Provably Robust Transfer can't be built:
    32 is not 6n + 4.
    """

    depth: Annotated[int, AfterValidator(_checked_depth)] = 28
    width: Positive = 10

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        channels = 16
        layers: list[nn.Module] = [nn.Conv2d(shape[0], channels, 3, padding=1, bias=False)]
        for stage, stride in enumerate((1, 2, 2)):
            width = 16 * self.width * 2**stage
            for block in range((self.depth - 4) // 6):
                layers.append(PreActBlock(channels, width, stride if block == 0 else 1))
                channels = width
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers), channels
