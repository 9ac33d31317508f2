"""`shiftproof audit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli.options import (
    EXIT_FAILED,
    Architecture,
    AsJson,
    Data,
    NoiseSeed,
    Require,
    SampleSeed,
    Split,
    Workers,
    absolute,
    accuracy_json,
    duration,
    measures_json,
    options_of_set,
    outcomes_now,
    repeat_command,
    say,
    show_accuracy,
    show_findings,
    show_json,
    show_measures,
    show_outcomes,
    with_architecture,
)

if TYPE_CHECKING:
    from shiftproof.report.requirements import Outcome
    from shiftproof.runs import Run
    from shiftproof.runs.audit import Planned
    from shiftproof.runs.plan import Plan
    from shiftproof.runs.subject import Subject

__all__ = ["command"]

LONG = 30 * 60
"""Seconds from which an audit says before its start that it takes long."""


def command(
    data: Data,
    model: Annotated[str, typer.Option("--model", help="file:PATH of a trained model, or python:PKG.MOD:FN.")],
    architecture: Architecture = None,
    target: Annotated[str | None, typer.Option("--target", help="The domain that the model is shipped to.")] = None,
    source: Annotated[
        str | None, typer.Option("--source", help="Domains it was trained on: a,b.", show_default="all but the target")
    ] = None,
    threat: Annotated[
        str | None,
        typer.Option(
            "--threat", help="Attacks: l2:0.5, linf:8/255, rotation:0.2; several with commas.", show_default="l2:0.5"
        ),
    ] = None,
    noise: Annotated[
        str | None, typer.Option("--noise", help="What smooths: gaussian, rotation ...", show_default="gaussian")
    ] = None,
    sigma: Annotated[
        str | None, typer.Option("--sigma", help="Scale of the noise.", show_default="the model's, or 0.25")
    ] = None,
    certifier: Annotated[
        str | None, typer.Option("--certifier", help="See: shiftproof explain", show_default="randomized-smoothing")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Votes a certificate.", show_default="10,000, or by budget")
    ] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", help="Chance that a certificate is wrong, at most.")] = None,
    corruptions: Annotated[
        str, typer.Option("--corruptions", help="standard, all, none, noise, blur, weather, digital, or names.")
    ] = "standard",
    severities: Annotated[
        str | None, typer.Option("--severities", help="1 to 5, with commas.", show_default="all, or by budget")
    ] = None,
    also: Annotated[
        str | None, typer.Option("--also", help="Further probes: search, input-robustness.", show_default="none")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Samples of a domain, at most, at random.")] = 500,
    sample_seed: SampleSeed = 0,
    split: Split = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="How much time there is: 90s, 20m, 1.5h.", show_default="none")
    ] = None,
    require: Require = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop, with exit 2, if anything about the data is odd.")
    ] = False,
    estimate: Annotated[bool, typer.Option("--estimate", help="Say what it would measure and cost, and stop.")] = False,
    seed: NoiseSeed = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to.", show_default="runs/audit-<hash>")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Options of data, model, noise, certifier: data.size=64.")
    ] = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Audit a model of yours on your domains: clean, attacked, corrupted and certified, on the same samples.

    The report says what is right, what survives and what is guaranteed, where it was trained and where it is shipped.

    The same command continues where it was stopped; a budget is resolved once. Sizes of rotations are in radians, the
    sigma of rotation noise in half turns. Exit 2 if a check of the model or a --require fails.
    """
    import os
    import time

    from shiftproof.execution import check_writable
    from shiftproof.probes.corrupt import Corrupt
    from shiftproof.report.requirements import Requirement
    from shiftproof.runs.audit import plan_audit, wanted_of
    from shiftproof.runs.subject import THREATS

    began = time.monotonic()
    options = options_of_set(with_architecture(set_, architecture), ("data", "model", "noise", "certifier"))
    requirements = [Requirement.parse(text) for text in require or []]
    asked = Corrupt.create("standard" if corruptions == "none" else corruptions, severities or "1,2,3,4,5", "auto")
    given = {"noise": noise, "sigma": sigma, "n": n, "alpha": alpha}
    subject = _subject(data, model, source, target, seed, options)
    certifiers = _certifiers(subject, certifier, {k: v for k, v in given.items() if v is not None}, options)
    wanted = wanted_of(
        threat or THREATS,
        certifiers,
        corruptions if corruptions == "none" else asked.corruptions,
        None if severities is None else asked.severities,
        also or (),
    )
    count = workers or os.cpu_count() or 1
    planned = plan_audit(
        subject,
        wanted,
        limit,
        budget,
        require=requirements,
        strict=strict,
        out=out,
        seed=seed,
        sample_seed=sample_seed,
        split=split,
        workers=count,
        progress="lines",
    )
    if estimate or not json:
        _show_plan(planned, count, json and estimate)
    _warn_if_long(planned)
    if estimate:
        return
    check_writable(planned.folder)
    planning = time.monotonic() - began
    run = planned.run(count, progress="lines")
    written = run.export()
    outcomes = outcomes_now(run, require)
    failed = [*run.broken, *(one for one in outcomes if not one.met)]
    took = _Took(planning, time.monotonic() - began - planning, planned.plan, budget)
    if json:
        _show_json(run, outcomes, written[0], took)
    else:
        _show(run, outcomes, written[0], took)
    if failed:
        raise typer.Exit(EXIT_FAILED)


def _subject(
    data: str, model: str, source: str | None, target: str | None, seed: int | None, options: dict[str, dict[str, Any]]
) -> Subject:
    """The model with its record, and the domains."""
    from shiftproof.domains import load_domains
    from shiftproof.errors import UsageError
    from shiftproof.models import MODELS, load_model
    from shiftproof.models.load import check_trained
    from shiftproof.runs.data import check_classes, chosen
    from shiftproof.runs.models import card_of
    from shiftproof.runs.one_model import model_title
    from shiftproof.runs.subject import Subject

    if model in MODELS:
        raise UsageError(f"{model!r} is a network without training; audit a trained one: --model file:PATH")
    check_trained(model, options["model"])
    domains = load_domains(data, **options["data"])
    check_classes(domains)
    names = None if source is None else [name.strip() for name in source.split(",")]
    sources, shipped = chosen(domains, names, target)
    loaded = load_model(model, domains, **options["model"]).eval()
    named = {"name": absolute(data), **options["data"]}, {"name": absolute(model), **options["model"]}
    return Subject(loaded, sources, shipped, model_title(model), card_of(model), *named)


def _certifiers(
    subject: Subject, certifier: str | None, given: dict[str, Any], options: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """As told, or what fits the model; votes, and when they stop, are left to the effort unless told."""
    from shiftproof.cli.certifiers import certifiers_from
    from shiftproof.runs.one_model import certifier_config
    from shiftproof.runs.subject import usual_certifiers

    if certifier is None and not given and not options["noise"] and not options["certifier"]:
        return usual_certifiers(subject)
    usual = usual_certifiers(subject)
    if certifier is None and "noise" not in given and "sigma" not in given:
        given = {**given, "sigma": str(usual[0]["noise"]["sigma"])}
    found = [certifier_config(one) for one in certifiers_from(certifier or "randomized-smoothing", given, options)]
    told = {*given, *options["certifier"]}
    found = [{key: value for key, value in one.items() if key not in {"n", "stop"} - told} for one in found]
    return found if certifier is not None else [*found, *usual[1:]]


def _show_plan(planned: Planned, workers: int, json: bool) -> None:
    """What will be measured, on how many samples, and how long that takes."""
    from shiftproof.runs.run import described

    counts = {domain.name: len(domain) for domain in planned.data.measured}
    few = {domain.name: len(domain) for domain in planned.data.measured_by("attack")}
    plan = planned.plan
    if json:
        show_json(
            {
                "seconds": None if plan is None else plan.seconds,
                "samples": counts,
                "samples_beyond_clean": few,
                "costs": {} if plan is None else plan.costs,
                "probes": [described(choice) for choice in planned.study.probes],
            }
        )
        return
    say(f"samples  {_counts(counts)}")
    if few != counts:
        say(f"         of these the first for all probes but clean: {_counts(few)}")
    for choice in planned.study.probes:
        say(f"measure  {described(choice)}")
    if plan is None:
        say(f"continue {planned.folder}, {planned.done} of {planned.pieces} measurements are done")
    else:
        say(f"time     about {duration(plan.seconds)} with --workers {workers}, by a trial of a moment")
    show_findings(planned.noticed)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _warn_if_long(planned: Planned) -> None:
    """Say that an audit takes long, and how to shorten it."""
    plan = planned.plan
    if plan is None or plan.seconds <= LONG:
        return
    dearest = max(plan.costs, key=lambda title: plan.costs[title])
    typer.echo(
        f"this takes about {duration(plan.seconds)}, most of it for {dearest!r} ({duration(plan.costs[dearest])}); to "
        "shorten it: --budget 20m, a smaller --limit or --n, --corruptions none, fewer --severities or --threat",
        err=True,
    )


@dataclass(frozen=True)
class _Took:
    """Seconds for reading data and trials, and for all that was planned then; what was expected, and the budget."""

    planning: float
    measuring: float
    plan: Plan | None
    budget: str | None

    @property
    def overrun(self) -> str:
        """A sentence, if it took longer than the budget."""
        from shiftproof.runs.plan import parse_budget

        seconds = self.planning + self.measuring
        if self.budget is None or seconds <= parse_budget(self.budget):
            return ""
        return f"it took {duration(seconds)}, longer than the budget of {self.budget}"

    def figures(self) -> dict[str, Any]:
        """For --json."""
        expected = None if self.plan is None else self.plan.seconds
        taken = {"planning": self.planning, "measuring": self.measuring, "expected": expected}
        return {**taken, "budget": self.budget, "overrun": self.overrun}


def _show(run: Run, outcomes: list[Outcome], report: Path, took: _Took) -> None:
    content = run.content()
    if content.measures.beyond:
        typer.echo("As they are, on all samples:")
        show_accuracy(content.accuracy)
    show_measures(content.measures)
    show_findings(content.findings)
    say("")
    for sentence in content.verdict:
        say(sentence, "bold")
    say(f"\nreport  {report}\nrun     {run.folder}")
    if run.record["asked"]["seed"] is None:
        # a command is copied as it is: nothing breaks its line
        typer.echo(f"repeat  {repeat_command(run.record['noise_seed'])}")
    if took.overrun:
        say(f"time    {took.overrun}")
    show_outcomes(outcomes)


def _show_json(run: Run, outcomes: list[Outcome], report: Path, took: _Took) -> None:
    from dataclasses import asdict

    content = run.content()
    show_json(
        {
            "requirements": [asdict(one) for one in outcomes],
            "run": str(run.folder),
            "report": str(report),
            "seed": run.record["noise_seed"],
            "samples": run.samples,
            "time": took.figures(),
            "verdict": content.verdict,
            **accuracy_json(content.accuracy),
            "measures": measures_json(content.measures),
            "corrupted": [one.figures() for one in content.corrupted],
            "findings": [asdict(finding) for finding in content.findings],
        }
    )
