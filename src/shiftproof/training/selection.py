"""How the kept weights are chosen: on held-out source samples, never on the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shiftproof.attacks import Base
from shiftproof.attacks.attack import attack_samples
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.objectives import OBJECTIVES, Objective
from shiftproof.objectives.objective import Selection
from shiftproof.perturbations.noise import Noise, draw
from shiftproof.rng import numpy_generator
from shiftproof.training.machine import laid_out

__all__ = ["ROBUST_SAMPLES", "Validation", "check_rule", "mean_accuracy"]

ROBUST_SAMPLES = 500
"""So many validation samples of each domain, evenly spaced, are attacked."""


def check_rule(rule: Selection, objective: Objective) -> None:
    """Refuse to select by robust accuracy where the objective knows no attack."""
    if rule == "robust-source-validation" and getattr(objective, "attack", None) is None:
        able = ", ".join(entry.name for entry in OBJECTIVES if hasattr(entry.cls, "attack"))
        raise UsageError(f"{OBJECTIVES.name_of(objective)} has no attack to select by; these have one: {able}")


@dataclass(frozen=True, eq=False)
class Validation:
    """Held-out samples of the sources, and the rule by which one state of the weights is better than another."""

    domains: list[Domain]
    rule: Selection
    objective: Objective
    seed: int
    layout: torch.memory_format = torch.contiguous_format

    def measure(self, model: nn.Module) -> dict[str, dict[str, float]]:
        """Accuracy of every domain, under the objective's noise and attack too; leaves the model in eval mode."""
        model.eval()
        found = {"validation": {domain.name: self._accuracy(model, domain) for domain in self.domains}}
        noise = getattr(self.objective, "noise", None)
        if noise is not None:
            found["noisy_validation"] = {
                domain.name: self._accuracy(model, domain, self._noisy(noise, domain.name)) for domain in self.domains
            }
        if self.rule == "robust-source-validation":
            found["robust_validation"] = {domain.name: self._robust(model, domain) for domain in self.domains}
        return found

    def score(self, row: Mapping[str, Any]) -> float:
        """By which rows of the history compare: the larger is kept, of equal ones the first.

        A model that is trained to be smoothed is judged by what it says under that noise.
        """
        if self.rule == "last":
            return float(row["step"])
        if self.rule == "robust-source-validation":
            return mean_accuracy(row["robust_validation"])
        return mean_accuracy(row.get("noisy_validation", row["validation"]))

    def _accuracy(self, model: nn.Module, domain: Domain, change: Callable[[Tensor], Tensor] | None = None) -> float:
        device, correct = _device(model), 0
        with torch.no_grad():
            for block in domain.blocks:
                inputs, labels = domain.take(block)
                inputs = laid_out((inputs if change is None else change(inputs)).to(device), self.layout)
                correct += int((model(inputs).argmax(1).cpu() == labels).sum())
        return correct / len(domain)

    def _noisy(self, noise: Noise, domain: str) -> Callable[[Tensor], Tensor]:
        # the same draws at every evaluation: what differs is the model
        generator = numpy_generator(self.seed, "noisy validation", domain)

        def apply(inputs: Tensor) -> Tensor:
            draws = draw(noise, tuple(inputs.shape[1:]), len(inputs), generator) * noise.scale
            return noise.apply(inputs, torch.from_numpy(draws).to(inputs))

        return apply

    def _robust(self, model: nn.Module, domain: Domain) -> float:
        attack: Any = self.objective.attack  # type: ignore[attr-defined]
        victim = getattr(self.objective, "victim", Base)(model)
        block = np.linspace(0, len(domain) - 1, min(len(domain), ROBUST_SAMPLES), dtype=np.int64)
        inputs, labels = domain.take(block)
        device = _device(model)
        # here, too, the same draws at every evaluation
        (result,) = attack_samples(
            victim,
            attack,
            laid_out(inputs.to(device), self.layout),
            labels.to(device),
            domain.ids[block],
            [attack.threat.eps],
            self.seed,
        )
        return result.robust_accuracy


def mean_accuracy(accuracy: Mapping[str, float]) -> float:
    """The mean over domains, each weighing the same."""
    return sum(accuracy.values()) / len(accuracy)


def _device(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
