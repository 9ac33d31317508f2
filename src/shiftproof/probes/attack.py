"""Attacks as evidence."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PlainValidator
from torch import Tensor, nn

from shiftproof.attacks import Base, Smoothed, craft
from shiftproof.attacks.attack import as_attack, as_victim, attack_samples, check_eps, check_victim
from shiftproof.domains import Domain
from shiftproof.execution import single_threaded
from shiftproof.perturbations.noise import as_noise, label
from shiftproof.probes.probe import PROBES, Columns, ProbeTask, measure_blocks
from shiftproof.types import Cost, Positive

__all__ = ["Attack"]

UNITS = "pixel values in [0, 1]"
_TRIED = 8


def _noise_or_none(value: Any) -> Any:
    return None if value is None else as_noise(value)


@PROBES.register("attack", cost="as the attack says, times samples and with votes if the classifier is smoothed")
@dataclass(frozen=True)
class Attack:
    """Predictions on attacked samples: `{name: attack, attack: {name: pgd, threat: linf:8/255, steps: 20}}`.

    With `smoothed` (a noise), the victim is the majority vote under it.
    """

    attack: Annotated[Any, PlainValidator(as_attack)]
    smoothed: Annotated[Any, PlainValidator(_noise_or_none)] = None
    samples: Positive = 16
    votes: Positive = 1_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "attack", as_attack(self.attack))
        object.__setattr__(self, "smoothed", _noise_or_none(self.smoothed))
        check_eps(self.attack.threat)

    @property
    def classifier(self) -> str:
        """Of which classifier the rows speak."""
        return (Base if self.smoothed is None else Smoothed).classifier

    @property
    def title(self) -> str:
        """What tells it from other attack probes of a study."""
        return f"attack, {self.attack.threat}" + ("" if self.smoothed is None else f" on {label(self.smoothed)}")

    def collect(self, task: ProbeTask) -> Columns:
        """Predictions after the attack, and how far it went."""
        check_victim(self._victim(task.model, task.seed), task.domain)
        columns = measure_blocks(partial(self.measure, seed=task.seed), task, with_ids=True)
        threat = self.attack.threat
        facts: dict[str, Any] = {"eps": threat.eps, "norm": threat.norm, "units": UNITS}
        # how many votes judged the attack: few can miss a majority
        facts |= {} if self.smoothed is None else {"noise": label(self.smoothed), "n": self.votes}
        return columns | {name: np.full(len(task.domain), value) for name, value in facts.items()}

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_], seed: int = 0
    ) -> Columns:
        """Of a block of samples; draws depend on the seed and a sample's id alone."""
        victim, eps = self._victim(model, seed), self.attack.threat.eps
        (result,) = attack_samples(victim, self.attack, inputs, labels, ids, [eps], seed)
        return {"prediction": result.predictions, "distance": result.distance}

    def cost(self, model: nn.Module, domain: Domain, workers: int) -> Cost:
        """By a trial on a few samples; those that are wrong before the attack will cost less."""
        few = domain.subset(np.arange(min(_TRIED, len(domain))))
        inputs, labels = few.tensors()
        victim, radii = self._victim(model, 0), torch.full((len(few),), self.attack.threat.eps)
        with single_threaded():
            began = time.perf_counter()
            attacked = craft(victim, inputs, labels, self.attack, radii=radii, ids=few.ids)
            for judged in (inputs, attacked):
                victim.answers(judged)
        seconds = len(domain) * (time.perf_counter() - began) / len(few)
        judging = 2 if self.smoothed is None else 2 * self.votes
        passes = len(domain) * (self.attack.passes * victim.passes + judging)
        return Cost(passes, seconds, passes, seconds)

    def _victim(self, model: nn.Module, seed: int) -> Base | Smoothed:
        return as_victim(model, self.smoothed, self.samples, self.votes, seed)
