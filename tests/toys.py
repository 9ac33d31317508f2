"""Small batches and models that can be computed by hand."""

import torch
from torch import Tensor, nn

import shiftproof as sp
from shiftproof.rng import torch_generator
from shiftproof.types import Batch


def generator(*keys: int) -> torch.Generator:
    return torch_generator(0, "test", *keys)


def batch_of(*parts: tuple[Tensor, Tensor], memory: dict[str, Tensor] | None = None, step: int = 0) -> Batch:
    names = tuple(f"d{index}" for index in range(len(parts)))
    inputs, labels = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return Batch(inputs, labels, names, tuple(len(part[1]) for part in parts), step, memory or {})


def linear(weight: list[float], bias: float = 0.0) -> nn.Module:
    """Two classes by the sign of w.x + b: logits (-s/2, s/2)."""
    head = nn.Linear(len(weight), 2)
    with torch.no_grad():
        rows = torch.tensor([weight])
        head.weight.copy_(torch.cat([-rows, rows]) / 2)
        head.bias.copy_(torch.tensor([-bias, bias]) / 2)
    return sp.SplitModel(nn.Flatten(), head)


def two_classes() -> nn.Module:
    """Tells bright images of 3 x 8 x 8 from dark ones."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    with torch.no_grad():
        model[1].weight.copy_(torch.stack([-torch.ones(192), torch.ones(192)]) / 192)  # type: ignore[union-attr, operator]
        model[1].bias.copy_(torch.tensor([0.45, -0.45]))  # type: ignore[union-attr, operator]
    return model.eval()
