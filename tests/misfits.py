"""Models with one fault each, for `--model python:misfits:NAME`: images of 3 x 8 x 8, bright or dark."""

import torch
from torch import Tensor, nn
from toys import two_classes


class Fragile(nn.Module):
    """Right on images of 8 bits, and always class 0 on anything between their levels."""

    def __init__(self) -> None:
        super().__init__()
        self.model = two_classes()

    def forward(self, inputs: Tensor) -> Tensor:
        levels = inputs * 255
        noisy = (levels - levels.round()).abs().flatten(1).mean(1, keepdim=True) > 0.05
        return torch.where(noisy, torch.tensor([[1.0, 0.0]]), self.model(inputs))


def fragile() -> nn.Module:
    """Clean accuracy of 1, and a vote under noise that is right on one class."""
    return Fragile().eval()


def scaled(low: float, high: float) -> nn.Module:
    """Right on inputs that run from `low` to `high`, at the mean brightness of the images."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    ones, middle = torch.ones(192) / 192 / (high - low), (0.45 * (high - low) + low) / (high - low)
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([-ones, ones]))  # type: ignore[union-attr, operator]
        model[1].bias.copy_(torch.tensor([middle, -middle]))  # type: ignore[union-attr, operator]
    return model.eval()


def for_bytes() -> nn.Module:
    """Wants pixels from 0 to 255."""
    return scaled(0, 255)


def for_imagenet() -> nn.Module:
    """Wants inputs that are normalised as for ImageNet."""
    return scaled(-0.45 / 0.226, 0.55 / 0.226)


class ByBrightestPixel(nn.Module):
    """Wrong about half of the images, whatever their scale: which pixel is brightest says nothing."""

    def forward(self, inputs: Tensor) -> Tensor:
        odd = (inputs.flatten(1).argmax(1, keepdim=True) % 2).float()
        return torch.cat([odd, 1 - odd], 1) + 0 * inputs.flatten(1)[:, :2]


def useless() -> nn.Module:
    """At chance on every scale."""
    return ByBrightestPixel().eval()
