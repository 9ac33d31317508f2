"""How the kept weights are chosen: on held-out source samples, never on the target."""

import torch
from torch import nn

from shiftproof.domains import Domain
from shiftproof.training.machine import channels_last

__all__ = ["mean_accuracy", "validation_accuracy"]


def validation_accuracy(model: nn.Module, domains: list[Domain]) -> dict[str, float]:
    """Accuracy on each domain; leaves the model in eval mode."""
    model.eval()
    return {domain.name: _accuracy(model, domain) for domain in domains}


def mean_accuracy(accuracy: dict[str, float]) -> float:
    """The mean over domains, each weighing the same."""
    return sum(accuracy.values()) / len(accuracy)


def _accuracy(model: nn.Module, domain: Domain) -> float:
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    correct = 0
    with torch.no_grad():
        for block in domain.blocks:
            inputs, labels = domain.take(block)
            correct += int((model(channels_last(inputs.to(device))).argmax(1).cpu() == labels).sum())
    return correct / len(domain)
