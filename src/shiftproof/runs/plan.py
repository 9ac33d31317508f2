"""How much an audit does: its probes at several efforts, and which of them fits into a budget of time."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from shiftproof.certification import CERTIFIERS
from shiftproof.certification.sampling.stopping import Radii
from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.execution import Mode, duration, progress_bar
from shiftproof.perturbations.deformation import Ball, Deformation
from shiftproof.perturbations.noise import Noise, as_noise
from shiftproof.perturbations.threat import Threat
from shiftproof.probes import PROBES
from shiftproof.runs.data import CHEAP
from shiftproof.runs.trial import TRIED, Stopwatch, examining_seconds, trial_domain, wall_seconds

__all__ = ["DEFAULT", "EFFORTS", "Effort", "Plan", "Wanted", "fitting_plan", "parse_budget"]

CAREFUL = 1.3
"""A trial of a moment on few samples may be this much too hopeful: a budget keeps so much in hand."""
ENDING = 8.0
"""Seconds for tables, figures and the report."""
FEWEST = 20
"""Samples of a domain that a budget leaves at least: with fewer, no interval says anything."""
TRYING = 0.1
"""The part of a budget that trials of a greater effort may take."""


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
    """What an audit is asked to measure; what is None depends on the effort.

    With `radii`, votes stop once these and the sizes of attacks in the same norm are decided.
    """

    threats: tuple[Ball, ...]
    certifiers: tuple[dict[str, Any], ...]
    corruptions: tuple[str, ...]
    severities: tuple[int, ...] | None = None
    also: tuple[str, ...] = ()
    radii: tuple[float, ...] | None = None

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
        return found + [{"name": "certify", "certifier": self._voting(one, effort)} for one in self.certifiers]

    def _voting(self, certifier: dict[str, Any], effort: Effort) -> dict[str, Any]:
        """With the votes of an effort, and when they stop, unless that was told."""
        known = CERTIFIERS[certifier["name"]].options
        found = {**({"n": effort.n} if "n" in known else {}), **certifier}
        if self.radii is None or "stop" not in known or "stop" in certifier:
            return found
        noise = as_noise(certifier["noise"])
        sizes = [threat.eps for threat in self.threats if _speaks_of(noise, threat)] or [noise.scale]
        return {**found, "stop": Radii([0.0, *sizes, *self.radii]).spec}

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
        voting = [one for one in self.certifiers if CERTIFIERS[one["name"]].cls.classifier == "smoothed"]
        return [as_noise(one["noise"]) for one in voting if "noise" in one]


@dataclass(frozen=True)
class Plan:
    """Probes, how many samples of a domain all but the cheap ones measure, and how long that is expected to take.

    `costs` are the seconds of every probe, by its title.
    """

    probes: list[dict[str, Any]]
    prefix: int | None
    seconds: float
    costs: dict[str, float]


def fitting_plan(
    wanted: Wanted,
    model: nn.Module,
    measured: Sequence[Domain],
    budget: float | None,
    workers: int,
    progress: Mode = "off",
    spent: float = 0.0,
) -> Plan:
    """Without a budget, the usual effort; else the greatest that fits, and if none does, the least on fewer samples.

    A budget that even this can't keep is refused; `spent` seconds of it are gone already. Probes of one forward pass a
    sample always measure all.
    """
    began, few = time.perf_counter() - spent, trial_domain(measured)
    efforts = EFFORTS if budget is not None else (DEFAULT,)
    trials = len(efforts) * len(wanted.probes(DEFAULT))
    with progress_bar("trying every probe for a moment", trials, progress) as bar:
        watch = Stopwatch(model, few, lambda title: bar.advance(1, title))
        planner = _Planner(wanted, watch, list(map(len, measured)), workers, ENDING + examining_seconds(model, few))
        if budget is None:
            return planner.plan(DEFAULT, None, planner.tried(DEFAULT))
        each = planner.tried(efforts[-1])
        left = budget - (time.perf_counter() - began)
        if CAREFUL * planner.seconds(each) > left:
            return _on_fewer(planner, each, budget, left)
        chosen = efforts[-1]
        for effort in reversed(efforts[:-1]):
            left = budget - (time.perf_counter() - began)
            harder = planner.foreseen(effort, each)
            if planner.trial_seconds(harder) <= TRYING * budget:
                harder = planner.tried(effort)
            if CAREFUL * planner.seconds(harder) > left:
                break
            chosen, each = effort, harder
        return planner.plan(chosen, None, each)


def _on_fewer(planner: _Planner, each: _Each, budget: float, left: float) -> Plan:
    """The least effort on as many samples as fit."""
    largest = max(planner.counts)
    fewest = min(FEWEST, largest)
    if (least := CAREFUL * planner.seconds(each, fewest)) > left:
        costs = planner.costs(each, fewest)
        dearest = max(costs, key=lambda title: costs[title])
        enough = budget - left + least
        raise UsageError(
            f"the budget of {duration(budget)} can't be kept: {fewest} samples a domain at the least effort take about "
            f"{duration(enough)}, most of it for {dearest!r}; give --budget {_rounded_up(enough)}, or ask for less: "
            "--corruptions none, fewer of --threat, of --sigma or of --source"
        )
    prefix = fewest
    while prefix < largest and CAREFUL * planner.seconds(each, prefix + 1) <= left:
        prefix += 1
    return planner.plan(EFFORTS[-1], prefix, each)


_Each = list[tuple[Any, float]]
"""Probes with their seconds a sample."""


@dataclass(frozen=True)
class _Planner:
    """What is asked for, on so many samples of each domain, and what it takes besides."""

    wanted: Wanted
    watch: Stopwatch
    counts: list[int]
    workers: int
    besides: float

    def tried(self, effort: Effort) -> _Each:
        """By a trial."""
        return [(probe, self.watch.each(probe)) for probe in self._probes(effort)]

    def foreseen(self, effort: Effort, less: _Each) -> _Each:
        """At most, by what a lesser effort takes."""
        pairs = zip(self._probes(effort), less, strict=True)
        return [(probe, self.watch.at_most(probe, *like)) for probe, like in pairs]

    def _probes(self, effort: Effort) -> list[Any]:
        return [PROBES.create(_name(probe), _options(probe)) for probe in self.wanted.probes(effort)]

    def trial_seconds(self, each: _Each) -> float:
        """What trials of all probes would take: one sample, then four, each with what a block takes anyway."""
        return sum(1.0 + seconds * (5 + 2 * TRIED * self.watch.fixed) for _, seconds in each)

    def costs(self, each: _Each, prefix: int | None = None) -> dict[str, float]:
        """Seconds of every probe by its title."""
        found: dict[str, float] = {}
        for probe, seconds in each:
            name = PROBES.name_of(probe)
            counts = [count if prefix is None or name in CHEAP else min(count, prefix) for count in self.counts]
            title = probe.title
            found[title] = found.get(title, 0.0) + wall_seconds(probe, seconds, counts, self.workers, self.watch.fixed)
        return found

    def seconds(self, each: _Each, prefix: int | None = None) -> float:
        """All of it."""
        return self.besides + sum(self.costs(each, prefix).values())

    def plan(self, effort: Effort, prefix: int | None, each: _Each) -> Plan:
        """As a plan; samples that all are measured are no prefix."""
        prefix = None if prefix is None or prefix >= max(self.counts) else prefix
        return Plan(self.wanted.probes(effort), prefix, self.seconds(each, prefix), self.costs(each, prefix))


def _rounded_up(seconds: float) -> str:
    """A budget that is enough, as it is typed."""
    return f"{math.ceil(seconds / 10) * 10}s" if seconds < 90 else f"{math.ceil(seconds / 60)}m"


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


def _attack(threat: Ball, effort: Effort) -> dict[str, Any]:
    if isinstance(threat, Deformation):
        return {"name": "spatial", "threat": threat.spec}
    counts = {"steps": effort.steps, "targets": effort.targets, "queries": effort.queries}
    return {"name": "ensemble", "threat": threat.spec, **counts}


def _on_smoothed(threat: Ball, noise: Noise, effort: Effort) -> dict[str, Any]:
    spatial = isinstance(threat, Deformation)
    attack = {"name": "spatial"} if spatial else {"name": "pgd", "steps": effort.smoothed_steps, "loss": "margin"}
    return {
        "name": "attack",
        "attack": {**attack, "threat": threat.spec},
        "smoothed": noise.to_config(),
        "samples": effort.copies,
        "votes": effort.votes,
    }


def _speaks_of(noise: Noise, threat: Ball) -> bool:
    """Whether certificates under the noise are radii in the threat's norm."""
    return (noise.norm, noise.units) == (threat.norm, threat.units)


def _name(probe: dict[str, Any]) -> str:
    return str(probe["name"])


def _options(probe: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in probe.items() if key != "name"}
