"""Attacks as evidence."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator
from torch import Tensor, nn

from shiftproof.attacks import Base, Smoothed
from shiftproof.attacks.attack import as_attack, as_victim, attack_samples, check_eps, check_size, check_victim
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.evidence import Column
from shiftproof.execution import Compute, slots
from shiftproof.models.placement import device_of
from shiftproof.perturbations.deformation import Deformation
from shiftproof.perturbations.noise import as_noise, label
from shiftproof.perturbations.threat import parse_eps
from shiftproof.probes.blocks import Columns, ProbeTask, measure_blocks
from shiftproof.probes.costs import seconds_a_sample
from shiftproof.probes.probe import PROBES, Probe, Result, under_each
from shiftproof.types import Cost, Finding, Positive

__all__ = ["Attack", "Sizes", "as_sizes"]

_TOGETHER = 64


def _noise_or_none(value: Any) -> Any:
    return None if value is None else as_noise(value)


def as_sizes(value: Any) -> tuple[float, ...]:
    """Numbers or fractions, as a list or with commas."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    try:
        return tuple(parse_eps(part.strip()) if isinstance(part, str) else float(part) for part in parts)
    except (TypeError, ValueError) as error:
        raise UsageError(f"eps is {value!r}; it should be a number, or several, such as [2/255, 8/255]") from error


Sizes = Annotated[tuple[float, ...], PlainValidator(as_sizes)]
"""A field of a probe that takes numbers or fractions, as a list or with commas."""


@PROBES.register("attack", cost="as the attack says, times samples and with votes if the classifier is smoothed")
@dataclass(frozen=True)
class Attack(Probe):
    """Predictions on attacked samples: `{name: attack, attack: {name: pgd, threat: linf:8/255, steps: 20}}`.

    `eps` are further sizes, such as [2/255, 4/255]: accuracy never rises with them, because what is found within one
    is inside the larger ones. With `smoothed` (a noise), the victim is the majority vote under it.
    """

    columns: ClassVar = (Column("distance", "float", "How far the attack went, in the threat's norm and units."),)

    attack: Annotated[Any, PlainValidator(as_attack)]
    eps: Sizes = ()
    smoothed: Annotated[Any, PlainValidator(_noise_or_none)] = None
    samples: Positive = 16
    votes: Positive = 1_000

    def __post_init__(self) -> None:
        super().__post_init__()
        for eps in self.budgets:
            check_eps(self.attack.threat.at(eps))
        if max(self.budgets) == 0:
            raise UsageError(
                f"eps is 0: within {self.attack.threat.kind}:0 nothing changes; write a size above 0, such as "
                "linf:8/255"
            )

    @property
    def budgets(self) -> tuple[float, ...]:
        """All sizes, from the smallest to the largest; for a vote also 0, which nothing else asks."""
        before = set() if self.smoothed is None else {0.0}
        return tuple(sorted({*self.eps, self.attack.threat.eps, *before}))

    @property
    def classifier(self) -> str:
        """Of which classifier the rows speak."""
        return (Base if self.smoothed is None else Smoothed).classifier

    @property
    def title(self) -> str:
        """What tells it from other attack probes of a study."""
        return self._title(self.attack.threat.eps)

    def collect(self, task: ProbeTask) -> list[Result]:
        """Predictions after the attack, and how far it went, within each size."""
        check_victim(self._victim(task.model, task.seed), task.domain, self.attack)
        columns = measure_blocks(partial(self.measure, seed=task.seed), task, with_ids=True, most=_TOGETHER)
        threat = self.attack.threat
        # how many votes judged the attack: few can miss a majority
        judged = {} if self.smoothed is None else {"noise": label(self.smoothed), "votes": self.votes}
        victim = self._victim(task.model, task.seed)
        known = self.attack.reference(victim, task.domain)
        reference = {} if known is None else {"reference": known[0], "reference_size": known[1]}
        facts = {
            "threat": threat.kind,
            "norm": threat.norm,
            "units": self._units(),
            "how": self.attack.how(victim),
            "attack": repr(self),
            "asked": self.to_config(),
            **judged,
            **reference,
        }
        settings = [
            {"setting": f"{self!r} at {eps:g}", "title": self._title(eps), "eps": eps, **facts} for eps in self.budgets
        ]
        return under_each(settings, columns)

    def measure(
        self, model: nn.Module, inputs: Tensor, labels: Tensor, ids: NDArray[np.object_], seed: int = 0
    ) -> Columns:
        """Of a block of samples, one column a size; draws depend on the seed and a sample's id alone."""
        found = attack_samples(self._victim(model, seed), self.attack, inputs, labels, ids, self.budgets, seed)
        return {
            "prediction": np.stack([one.predictions for one in found], 1),
            "distance": np.stack([one.distance for one in found], 1),
        }

    def cost(self, model: nn.Module, domain: Domain, compute: Compute) -> Cost:
        """By a trial on a few samples, and by how many of some more are right: others are not attacked."""
        some = domain.subset(np.unique(np.linspace(0, len(domain) - 1, _TOGETHER, dtype=np.int64)))
        inputs, labels = (each.to(device_of(model)) for each in some.tensors())
        right = float((Base(model).answers(inputs) == labels).float().mean())

        def seconds_of(few: Domain) -> float:
            tried = few.tensors()[0].to(device_of(model))
            began = time.perf_counter()
            # all of these are attacked, because they are right by definition
            answers = self._victim(model, 0).answers(tried)
            asked = time.perf_counter()
            self.measure(model, tried, answers, few.ids)
            attacking = time.perf_counter() - asked
            return (asked - began) + right * max(0.0, attacking - (asked - began))

        each = seconds_a_sample(some, seconds_of, model, 1 if self.smoothed is None else self.samples)
        seconds = len(domain) * each / min(slots(compute), len(domain.in_blocks(_TOGETHER)))
        passes = len(domain) * self.passes(model)
        return Cost(passes, seconds, passes, seconds)

    def check(self, model: nn.Module, domain: Domain, calibration: object) -> None:
        """Refuse a size that changes nothing or turns any image into any other, and a model that can't be attacked."""
        for eps in {*self.eps, self.attack.threat.eps}:
            check_size(self.attack.threat.at(eps), domain.shape)
        check_victim(self._victim(model, 0), domain, self.attack)

    def findings(self) -> Iterator[Finding]:
        """What weakens the attack within any of its sizes; each thing once."""
        said = set()
        for eps in self.budgets:
            within: Any = replace(self.attack, threat=self.attack.threat.at(eps))
            for finding in within.findings() if eps > 0 else ():
                if finding.message not in said:
                    yield finding
                said.add(finding.message)

    def passes(self, model: nn.Module) -> int:
        """Forward passes of one sample, at most."""
        judging = 2 if self.smoothed is None else 2 * self.votes
        return sum(eps > 0 for eps in self.budgets) * (
            int(self.attack.passes) * self._victim(model, 0).passes + judging
        )

    def _units(self) -> str:
        """Of sizes; certificates of deforming noise speak of parameters, not of images that were deformed before."""
        threat, noise = self.attack.threat, self.smoothed
        outside = noise is not None and isinstance(threat, Deformation) and not threat.matches(noise)
        return f"{threat.units}, handed in deformed" if outside else str(threat.units)

    def _title(self, eps: float) -> str:
        smoothed = "" if self.smoothed is None else f" on {label(self.smoothed)}"
        return f"attack, {self.attack.threat.at(eps)}{smoothed}"

    def _victim(self, model: nn.Module, seed: int) -> Base | Smoothed:
        return as_victim(model, self.smoothed, self.samples, self.votes, seed)
