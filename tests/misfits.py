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
