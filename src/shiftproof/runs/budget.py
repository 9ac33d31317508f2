"""How much of a study fits into a budget of time: which effort, and on how many samples of a domain."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.execution import Compute, Mode, duration, progress_bar
from shiftproof.probes import Probe
from shiftproof.runs.examine import examining_seconds
from shiftproof.runs.trial import TRIED, Stopwatch, trial_domain, wall_seconds

__all__ = ["Plan", "plan_probes"]

CAREFUL = 1.3
"""A trial of a moment on few samples may be this much too hopeful: a budget keeps so much in hand."""
ENDING = 8.0
"""Seconds for tables, figures and the report."""
FEWEST = 20
"""Samples of a domain that a budget leaves at least: with fewer, no interval says anything."""
TRYING = 0.1
"""The part of a budget that trials of a greater effort may take."""

Probes = Sequence[Probe]
_Seconds = list[list[float]]
"""Of each probe, the seconds a sample on each model."""


@dataclass(frozen=True)
class Plan:
    """Probes, how many samples of a domain all but the cheap ones measure, and how long that is expected to take.

    `costs` are the seconds of every probe, by its title.
    """

    probes: tuple[Probe, ...]
    prefix: int | None
    seconds: float
    costs: dict[str, float]


def plan_probes(
    efforts: Sequence[Probes],
    models: Sequence[nn.Module],
    measured: Sequence[Domain],
    budget: float | None,
    compute: Compute,
    progress: Mode = "off",
    *,
    spent: float = 0.0,
    besides: float = 0.0,
    examined: Sequence[nn.Module] = (),
) -> Plan:
    """The greatest effort that fits into the budget, and if none does, the least on fewer samples; without a budget,
    the first.

    A budget that even this can't keep is refused; `spent` seconds of it are gone already, and training takes `besides`.
    Cheap probes always measure all samples.

    Args:
        efforts: Probes that ask the same questions, from the greatest effort to the least.
        examined: Models that are examined before they are attacked.
    """
    began, few = time.perf_counter() - spent, trial_domain(measured)
    tried = efforts if budget is not None else efforts[:1]
    with progress_bar("trying every probe for a moment", len(tried) * len(models) * len(tried[0]), progress) as bar:
        watches = [Stopwatch(model, few, compute, lambda title: bar.advance(1, title)) for model in models]
        fixed = ENDING + besides + sum(examining_seconds(model, few, tried[0], compute) for model in examined)
        planner = _Planner(watches, list(map(len, measured)), compute, fixed)
        if budget is None:
            return planner.plan(tried[0], None, planner.tried(tried[0]))
        least = tried[-1]
        each = planner.tried(least)
        left = budget - (time.perf_counter() - began)
        if CAREFUL * planner.seconds(least, each) > left:
            return _on_fewer(planner, least, each, budget, left)
        chosen = least
        for effort in reversed(tried[:-1]):
            left = budget - (time.perf_counter() - began)
            harder = planner.foreseen(effort, chosen, each)
            if planner.trial_seconds(harder) <= TRYING * budget:
                harder = planner.tried(effort)
            if CAREFUL * planner.seconds(effort, harder) > left:
                break
            chosen, each = effort, harder
        return planner.plan(chosen, None, each)


def _on_fewer(planner: _Planner, probes: Probes, each: _Seconds, budget: float, left: float) -> Plan:
    """These probes on as many samples as fit."""
    largest = max(planner.counts)
    fewest = min(FEWEST, largest)
    if (least := CAREFUL * planner.seconds(probes, each, fewest)) > left:
        costs = planner.costs(probes, each, fewest)
        costs["training, examining models and the report"] = planner.besides
        dearest = max(costs, key=lambda title: costs[title])
        enough = budget - left + least
        raise UsageError(
            f"the budget of {duration(budget)} can't be kept: {fewest} samples a domain at the least effort take about "
            f"{duration(enough)}, most of it for {dearest!r}; give --budget {_rounded_up(enough)}, or ask for less"
        )
    prefix = fewest
    while prefix < largest and CAREFUL * planner.seconds(probes, each, prefix + 1) <= left:
        prefix += 1
    return planner.plan(probes, prefix, each)


@dataclass(frozen=True)
class _Planner:
    """What is timed on each model, on so many samples of each domain, and the seconds that the rest takes."""

    watches: list[Stopwatch]
    counts: list[int]
    compute: Compute
    besides: float

    def tried(self, probes: Probes) -> _Seconds:
        """By a trial."""
        return [[watch.each(probe) for watch in self.watches] for probe in probes]

    def foreseen(self, probes: Probes, lesser: Probes, each: _Seconds) -> _Seconds:
        """At most, by what a lesser effort takes."""
        return [
            [watch.at_most(probe, like, seconds) for watch, seconds in zip(self.watches, row, strict=True)]
            for probe, like, row in zip(probes, lesser, each, strict=True)
        ]

    def trial_seconds(self, each: _Seconds) -> float:
        """What trials of all probes would take: one sample, then four, each with what a block takes anyway."""
        return sum(
            1.0 + seconds * (5 + 2 * TRIED * watch.fixed)
            for row in each
            for watch, seconds in zip(self.watches, row, strict=True)
        )

    def costs(self, probes: Probes, each: _Seconds, prefix: int | None = None) -> dict[str, float]:
        """Seconds of every probe by its title."""
        found: dict[str, float] = {}
        for probe, row in zip(probes, each, strict=True):
            counts = [count if prefix is None or probe.cheap else min(count, prefix) for count in self.counts]
            for watch, seconds in zip(self.watches, row, strict=True):
                cost = wall_seconds(probe, seconds, counts, self.compute, watch.fixed)
                found[probe.title] = found.get(probe.title, 0.0) + cost
        return found

    def seconds(self, probes: Probes, each: _Seconds, prefix: int | None = None) -> float:
        """All of it."""
        return self.besides + sum(self.costs(probes, each, prefix).values())

    def plan(self, probes: Probes, prefix: int | None, each: _Seconds) -> Plan:
        """As a plan; samples that all are measured are no prefix."""
        prefix = None if prefix is None or prefix >= max(self.counts) else prefix
        costs = self.costs(probes, each, prefix)
        return Plan(tuple(probes), prefix, self.besides + sum(costs.values()), costs)


def _rounded_up(seconds: float) -> str:
    """A budget that is enough, as it is typed."""
    return f"{math.ceil(seconds / 10) * 10}s" if seconds < 90 else f"{math.ceil(seconds / 60)}m"
