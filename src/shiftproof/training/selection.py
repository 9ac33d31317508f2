"""How the kept weights are chosen: on held-out source samples, never on the target."""

import numpy as np
import torch
from torch import nn

from shiftproof.domains import Domain
from shiftproof.training.machine import channels_last

__all__ = ["mean_accuracy", "validation_accuracy"]

_CHUNK = 512


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
        for start in range(0, len(domain), _CHUNK):
            inputs, labels = domain.take(np.arange(start, min(start + _CHUNK, len(domain))))
            correct += int((model(channels_last(inputs.to(device))).argmax(1).cpu() == labels).sum())
    return correct / len(domain)
