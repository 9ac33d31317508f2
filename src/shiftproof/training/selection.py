"""How the kept weights are chosen: on held-out source samples, never on the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from shiftproof.attacks import Base
from shiftproof.attacks.attack import attack_samples
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.objectives import OBJECTIVES, Objective
from shiftproof.objectives.objective import Selection
from shiftproof.training.machine import channels_last

__all__ = ["ROBUST_SAMPLES", "Validation", "check_rule", "mean_accuracy"]

ROBUST_SAMPLES = 500
"""So many validation samples of each domain, evenly spaced, are attacked."""


def check_rule(rule: Selection, objective: Objective) -> None:
    """Refuse to select by robust accuracy where the objective knows no attack."""
    if rule == "robust-source-validation" and not hasattr(objective, "attack"):
        able = ", ".join(entry.name for entry in OBJECTIVES if hasattr(entry.cls, "attack"))
        raise UsageError(f"{OBJECTIVES.name_of(objective)} has no attack to select by; these have one: {able}")


@dataclass(frozen=True, eq=False)
class Validation:
    """Held-out samples of the sources, and the rule by which one state of the weights is better than another."""

    domains: list[Domain]
    rule: Selection
    objective: Objective
    seed: int

    def measure(self, model: nn.Module) -> dict[str, dict[str, float]]:
        """Accuracy of every domain, under attack too if the rule is about that; leaves the model in eval mode."""
        model.eval()
        found = {"validation": {domain.name: _accuracy(model, domain) for domain in self.domains}}
        if self.rule == "robust-source-validation":
            found["robust_validation"] = {domain.name: self._robust(model, domain) for domain in self.domains}
        return found

    def score(self, row: Mapping[str, Any]) -> float:
        """By which rows of the history compare: the larger is kept, of equal ones the first."""
        if self.rule == "last":
            return float(row["step"])
        return mean_accuracy(row["robust_validation" if self.rule == "robust-source-validation" else "validation"])

    def _robust(self, model: nn.Module, domain: Domain) -> float:
        attack: Any = self.objective.attack  # type: ignore[attr-defined]
        victim = getattr(self.objective, "victim", Base)(model)
        block = np.linspace(0, len(domain) - 1, min(len(domain), ROBUST_SAMPLES), dtype=np.int64)
        inputs, labels = domain.take(block)
        device = _device(model)
        # the same draws at every evaluation: what differs is the model
        (result,) = attack_samples(
            victim,
            attack,
            channels_last(inputs.to(device)),
            labels.to(device),
            domain.ids[block],
            [attack.threat.eps],
            self.seed,
        )
        return result.robust_accuracy


def mean_accuracy(accuracy: Mapping[str, float]) -> float:
    """The mean over domains, each weighing the same."""
    return sum(accuracy.values()) / len(accuracy)


def _accuracy(model: nn.Module, domain: Domain) -> float:
    device = _device(model)
    correct = 0
    with torch.no_grad():
        for block in domain.blocks:
            inputs, labels = domain.take(block)
            correct += int((model(channels_last(inputs.to(device))).argmax(1).cpu() == labels).sum())
    return correct / len(domain)


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
