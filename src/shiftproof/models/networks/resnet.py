"""Residual networks with activation before convolution (He et al., 2016b), for small images."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.types import Positive

__all__ = ["PreActBlock", "PreActResNet18"]


class PreActBlock(nn.Module):
    """BatchNorm, ReLU and a 3x3 convolution, twice, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        changes = stride != 1 or channels != width
        self.shortcut = nn.Conv2d(channels, width, 1, stride, bias=False) if changes else None

    def forward(self, inputs: Tensor) -> Tensor:
        """N x C x H x W to N x width x H/stride x W/stride."""
        active = F.relu(self.norm1(inputs))
        # where the shape changes the shortcut sees the activated input, as published
        shortcut = inputs if self.shortcut is None else self.shortcut(active)
        hidden = self.conv2(F.relu(self.norm2(self.conv1(active))))
        return hidden + shortcut  # type: ignore[no-any-return]


@MODELS.register(
    "preact-resnet18", paper="He et al., Identity Mappings, 2016", cost="about 100 images 32x32 a second and core"
)
@dataclass(frozen=True)
class PreActResNet18(Architecture):
    """Pre-activation ResNet18 for small images; `width` 64 is the published one, 16 a narrow one for a laptop."""

    width: Positive = 64

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        channels = self.width
        layers: list[nn.Module] = [nn.Conv2d(shape[0], channels, 3, padding=1, bias=False)]
        for stage, stride in enumerate((1, 2, 2, 2)):
            width = self.width * 2**stage
            layers += [PreActBlock(channels, width, stride), PreActBlock(width, width, 1)]
            channels = width
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers), channels
