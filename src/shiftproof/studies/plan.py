"""How much an audit does: its probes at several efforts, and which of them fits into a budget of time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from shiftproof.certification import CERTIFIERS
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.perturbations.deformation import Ball, Deformation
from shiftproof.perturbations.noise import Noise, as_noise, as_record
from shiftproof.perturbations.threat import Threat
from shiftproof.probes import PROBES

__all__ = ["DEFAULT", "EFFORTS", "Effort", "Plan", "Wanted", "fitting_plan", "parse_budget"]

CAREFUL = 1.3
"""A trial of a moment on few samples may be this much too hopeful."""
STARTING = 15.0
"""Seconds for reading data, checks of the model and the report."""
FEWEST = 20
"""Samples of a domain that a budget leaves at least: with fewer, no interval says anything."""


@dataclass(frozen=True)
class Effort:
    """How hard every question is asked: votes of a certificate, severities, steps and queries of attacks.

    `copies` are noisy copies on which a smoothed classifier is attacked, `votes` those that judge.
    """

    n: int
    severities: tuple[int, ...]
    steps: int
    targets: int
    queries: int
    smoothed_steps: int
    copies: int
    votes: int


EFFORTS = (
    Effort(100_000, (1, 2, 3, 4, 5), 100, 9, 5_000, 40, 32, 2_000),
    Effort(10_000, (1, 2, 3, 4, 5), 100, 9, 1_000, 20, 16, 1_000),
    Effort(5_000, (1, 3, 5), 50, 5, 500, 20, 8, 1_000),
    Effort(2_000, (1, 3, 5), 30, 3, 300, 10, 8, 500),
    Effort(1_000, (3,), 20, 1, 100, 10, 4, 300),
)
"""From the greatest to the least."""
DEFAULT = EFFORTS[1]
"""Without a budget."""


@dataclass(frozen=True)
class Wanted:
    """What an audit is asked to measure; what is None depends on the effort."""

    threats: tuple[Ball, ...]
    certifiers: tuple[dict[str, Any], ...]
    corruptions: tuple[str, ...]
    severities: tuple[int, ...] | None = None
    also: tuple[str, ...] = ()

    def probes(self, effort: Effort) -> list[dict[str, Any]]:
        """The probes of a study: clean, attacks, attacks on what is smoothed, corruptions, certificates."""
        found: list[dict[str, Any]] = [{"name": "clean"}]
        found += [{"name": "attack", "attack": _attack(threat, effort)} for threat in self.threats]
        for noise in self._noises():
            found += [_on_smoothed(threat, noise, effort) for threat in self.threats if _speaks_of(noise, threat)]
        if self.corruptions:
            severities = list(self.severities or effort.severities)
            found.append({"name": "corrupt", "corruptions": list(self.corruptions), "severities": severities})
        found += [{"name": name, **self._usual(name)} for name in self.also]
        return found + [{"name": "certify", "certifier": _with_votes(one, effort)} for one in self.certifiers]

    def _usual(self, probe: str) -> dict[str, Any]:
        """What another probe needs: the first threat to pixels, if it is about one."""
        pixels = [threat.spec for threat in self.threats if isinstance(threat, Threat)]
        if "threat" not in PROBES[probe].options:
            return {}
        if not pixels:
            raise UsageError(f"the probe {probe!r} needs a threat to pixels, such as --threat l2:0.5")
        return {"threat": pixels[0]}

    def _noises(self) -> list[Noise]:
        """Of certificates that speak of a vote under noise: the same vote is attacked."""
        voting = [
            one for one in self.certifiers if getattr(CERTIFIERS[one["name"]].cls, "classifier", "") == "smoothed"
        ]
        return [as_noise(one["noise"]) for one in voting if "noise" in one]


@dataclass(frozen=True)
class Plan:
    """Probes, how many samples of a domain, and how long that is expected to take."""

    probes: list[dict[str, Any]]
    limit: int | None
    seconds: float


def fitting_plan(
    wanted: Wanted,
    model: nn.Module,
    measured: Sequence[Domain],
    limit: int | None,
    budget: float | None,
    workers: int,
) -> Plan:
    """Without a budget, the usual effort; else the greatest that fits, and if none does, the least on fewer samples."""
    samples = sum(map(len, measured))
    # seconds a forward pass, from a trial at the least effort; what costs more takes more of them
    trials = [PROBES.create(_name(probe), _options(probe)) for probe in wanted.probes(EFFORTS[-1])]
    rates = [_rate(probe, model, measured[-1], workers) for probe in trials]

    def seconds(effort: Effort) -> float:
        probes = [PROBES.create(_name(probe), _options(probe)) for probe in wanted.probes(effort)]
        each = sum(rate * passes_of(probe, model) for rate, probe in zip(rates, probes, strict=True))
        return STARTING + CAREFUL * samples * each

    if budget is None:
        return Plan(wanted.probes(DEFAULT), limit, seconds(DEFAULT))
    for effort in EFFORTS:
        if seconds(effort) <= budget:
            return Plan(wanted.probes(effort), limit, seconds(effort))
    least, largest = EFFORTS[-1], max(map(len, measured))
    share = max(0.0, budget - STARTING) / (seconds(least) - STARTING)
    fewer = min(largest, max(FEWEST, int(share * largest)))
    return Plan(wanted.probes(least), fewer, STARTING + (seconds(least) - STARTING) * fewer / largest)


def passes_of(probe: Any, model: nn.Module) -> int:
    """Forward passes of one sample, at most."""
    if hasattr(probe, "passes"):
        return int(probe.passes(model))
    certifier = getattr(probe, "certifier", None)
    return int(getattr(certifier, "n0", 0) + getattr(certifier, "n", getattr(certifier, "samples", 1)))


def parse_budget(text: str) -> float:
    """Seconds from text such as 90s, 20m, 1.5h.

    >>> parse_budget("20m"), parse_budget("1.5h")
    (1200.0, 5400.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h)\s*", text)
    seconds = float(found[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[found[2]] if found else 0.0
    if not seconds > 0:
        raise UsageError(f"the budget is {text!r}; write a time such as 90s, 20m or 1.5h")
    return seconds


def _rate(probe: Any, model: nn.Module, domain: Domain, workers: int) -> float:
    return float(probe.cost(model, domain, workers).seconds / len(domain) / passes_of(probe, model))


def _attack(threat: Ball, effort: Effort) -> dict[str, Any]:
    if isinstance(threat, Deformation):
        return {"name": "spatial", "threat": threat.spec}
    if threat.norm == "l1":
        return {"name": "pgd", "threat": threat.spec, "steps": effort.steps, "restarts": 3}
    counts = {"steps": effort.steps, "targets": effort.targets, "queries": effort.queries}
    return {"name": "ensemble", "threat": threat.spec, **counts}


def _on_smoothed(threat: Ball, noise: Noise, effort: Effort) -> dict[str, Any]:
    spatial = isinstance(threat, Deformation)
    attack = {"name": "spatial"} if spatial else {"name": "pgd", "steps": effort.smoothed_steps, "loss": "margin"}
    return {
        "name": "attack",
        "attack": {**attack, "threat": threat.spec},
        "smoothed": as_record(noise),
        "samples": effort.copies,
        "votes": effort.votes,
    }


def _speaks_of(noise: Noise, threat: Ball) -> bool:
    """Whether certificates under the noise are radii in the threat's norm."""
    return (noise.norm, noise.units) == (threat.norm, threat.units)


def _with_votes(certifier: dict[str, Any], effort: Effort) -> dict[str, Any]:
    known = CERTIFIERS[certifier["name"]].options
    return {**({"n": effort.n} if "n" in known else {}), **certifier}


def _name(probe: dict[str, Any]) -> str:
    return str(probe["name"])


def _options(probe: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in probe.items() if key != "name"}
