"""How an audit is shown on the command line: what it will do, and what it found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from shiftproof.cli.show import duration, no_target, outcomes_now, say, show_findings, show_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftproof.execution import Compute
    from shiftproof.runs import Run
    from shiftproof.runs.budget import Plan
    from shiftproof.runs.plan import Planned

__all__ = ["Took", "show_audit_json", "show_plan"]

LONG = 30 * 60
"""Seconds from which an audit says before its start that it takes long."""


@dataclass(frozen=True)
class Took:
    """Seconds for reading data and trials, and for all that was planned then; what was expected, and the budget."""

    planning: float
    measuring: float
    plan: Plan | None
    budget: str | None

    @property
    def overrun(self) -> str:
        """A sentence, if it took longer than the budget."""
        from shiftproof.execution import parse_duration

        seconds = self.planning + self.measuring
        if self.budget is None or seconds <= parse_duration(self.budget):
            return ""
        return f"it took {duration(seconds)}, longer than the budget of {self.budget}"

    def figures(self) -> dict[str, Any]:
        """For --json."""
        expected = None if self.plan is None else self.plan.seconds
        taken = {"planning": self.planning, "measuring": self.measuring, "expected": expected}
        return {**taken, "budget": self.budget, "overrun": self.overrun}


def show_plan(planned: Planned, compute: Compute, json: bool, estimate: bool, verbose: bool) -> None:
    """What will be measured, on how many samples, and how long that takes."""
    from shiftproof.domains.splits import most_samples
    from shiftproof.runs.facts import describe
    from shiftproof.runs.precisions import describe_precisions

    precisions = describe_precisions(planned.prepared, planned.study.all_probes) if estimate else ""
    data, plan = planned.prepared.data, planned.plan
    counts = {domain.name: len(domain) for domain in data.measured}
    few = {name: min(count, most_samples(data.first(name)) or count) for name, count in counts.items()}
    if json and estimate:
        costs = {"seconds": None if plan is None else plan.seconds, "costs": {} if plan is None else plan.costs}
        samples = {"samples": counts, "samples_beyond_clean": few}
        show_json(
            {
                **costs,
                **samples,
                "probes": [describe(probe) for probe in planned.study.all_probes],
                "precisions": precisions,
            }
        )
    elif not json:
        say(f"samples  {_counts(counts)}")
        if held := [name for name in counts if data.part(name) == "held-out"]:
            say(f"         of {', '.join(held)} the held-out part: training samples are not measured")
        if not planned.study.targets:
            say(no_target(planned.prepared))
        if few != counts:
            say(f"         of these the first for all probes but clean: {_counts(few)}")
        for probe in planned.study.all_probes:
            say(f"measure  {describe(probe)}")
        if plan is None:
            say(f"continue {planned.folder}, {planned.done} of {planned.pieces} measurements are done")
        else:
            say(f"time     about {duration(plan.seconds)} {_where(compute)}, by a trial of a moment")
        if precisions:
            say(precisions)
        show_findings(one for one in planned.prepared.findings if verbose or one.level != "pass")
    _warn_if_long(plan)


def _where(compute: Compute) -> str:
    """Where the time holds."""
    if compute.cluster is not None:
        return f"with --cluster {compute.cluster}"
    return f"with --workers {compute.workers}" if compute.kind == "cpu" else f"on {compute.place}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _warn_if_long(plan: Plan | None) -> None:
    """Say that an audit takes long, and how to shorten it."""
    if plan is None or plan.seconds <= LONG:
        return
    dearest = max(plan.costs, key=lambda title: plan.costs[title])
    typer.echo(
        f"this takes about {duration(plan.seconds)}, most of it for {dearest!r} ({duration(plan.costs[dearest])}); to "
        "shorten it: --budget 20m, a smaller --limit or --n, --corruptions none, fewer --severities or --threat",
        err=True,
    )


def show_audit_json(run: Run, require: Sequence[str] | None, took: Took) -> None:
    """All of it as one JSON object."""
    from dataclasses import asdict

    content = run.content()
    show_json(
        {
            "requirements": [asdict(one) for one in outcomes_now(run, require)],
            "run": str(run.folder),
            "report": str(run.folder / "report.html"),
            "seed": run.record["noise_seed"],
            "samples": run.samples,
            "time": took.figures(),
            "verdict": content.verdict,
            **(content.scores.figures() or content.accuracy.figures()),
            "measures": content.measures.figures(),
            "corrupted": [one.figures() for one in content.corrupted],
            "findings": [asdict(finding) for finding in content.findings],
        }
    )
