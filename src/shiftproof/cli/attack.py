"""`shiftproof attack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli.options import (
    EXIT_FAILED,
    Architecture,
    AsJson,
    Data,
    Estimate,
    Limit,
    Require,
    SampleSeed,
    Seed,
    Split,
    TrainedModel,
    Workers,
    absolute,
    names_of,
    options_of_set,
    outcomes_now,
    say,
    show_costs,
    show_findings,
    show_json,
    show_outcomes,
    show_table,
    with_architecture,
)

if TYPE_CHECKING:
    from shiftproof.perturbations import Deformation, Threat
    from shiftproof.report.sections.attacked import Attacked
    from shiftproof.runs import Run

__all__ = ["command"]


def command(
    data: Data,
    model: TrainedModel,
    threat: Annotated[
        str,
        typer.Option(
            "--threat",
            help="Norm and size of the change, linf:8/255, or a deformation and its size, rotation:0.3; or without "
            "a size, with --eps.",
        ),
    ],
    architecture: Architecture = None,
    domain: Annotated[str | None, typer.Option("--domain", help="Domains to attack: a,b.", show_default="all")] = None,
    attack: Annotated[
        str | None,
        typer.Option("--attack", help="See: shiftproof ls attacks", show_default="pgd; spatial for a deformation"),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Steps of the attack.", show_default="as the attack says")
    ] = None,
    eps: Annotated[
        str | None, typer.Option("--eps", help="Further sizes: 0.01,8/255.", show_default="that of the threat")
    ] = None,
    smoothed: Annotated[
        str | None, typer.Option("--smoothed", help="Attack the majority vote under a noise: gaussian:0.25.")
    ] = None,
    limit: Limit = None,
    sample_seed: SampleSeed = 0,
    split: Split = None,
    require: Require = None,
    estimate: Estimate = False,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to.", show_default="runs/attack-<hash>")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Options of attack, data and model: attack.rule=sign, data.size=64."),
    ] = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Attack a model on each domain: how much of its accuracy is left when images may be changed or deformed a little.

    Writes a run: what every sample became (evidence/), a report, tables and pictures. The same command continues where
    it was stopped.
    """
    import os
    from dataclasses import asdict

    from shiftproof.report.requirements import Requirement
    from shiftproof.report.sections.attacked import attacked_of
    from shiftproof.runs.engine import run_study
    from shiftproof.runs.estimate import estimate_study
    from shiftproof.runs.one_model import OneModel
    from shiftproof.runs.prepare import prepare_study

    options = options_of_set(with_architecture(set_, architecture), ("attack", "data", "model"))
    probe = _probe(threat, attack, steps, eps, smoothed, options["attack"])
    asked = OneModel(absolute(data), absolute(model), options, names_of(domain), limit, sample_seed, split, seed)
    study = asked.study("attack", "Attacks on", [{"name": "clean"}, probe])
    count = workers or os.cpu_count() or 1
    requirements = [Requirement.parse(text) for text in require or []]
    prepared = prepare_study(study)
    if estimate:
        show_costs(estimate_study(prepared, count), json)
        return
    run = run_study(prepared, out, workers=count, progress="lines", require=requirements)
    run.export()
    answers, outcomes = attacked_of(run.evidence), outcomes_now(run, require)
    notes = [one for one in run.content().notes if one.level != "pass"]
    if json:
        every = [one.figures() | {"split": run.samples[one.domain]["split"]} for one in answers]
        # with several domains the first one's figures are at the top, and all are in `results`
        result = {**every[0], "model": model, "results": every, "findings": [one.message for one in notes]}
        show_json({**result, "out": str(run.folder), "requirements": [asdict(one) for one in outcomes]})
    else:
        _show(run, answers)
        show_findings(notes)
        say(f"\nwritten to {run.folder}: report.html, evidence/, tables/attacked.csv{_pictures(answers)}")
        show_outcomes(outcomes)
    if any(not one.met for one in outcomes):
        raise typer.Exit(EXIT_FAILED)


def _probe(
    threat: str,
    attack: str | None,
    steps: int | None,
    eps: str | None,
    smoothed: str | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    """The probe that was typed."""
    from shiftproof.attacks import ATTACKS
    from shiftproof.errors import UsageError
    from shiftproof.perturbations import Deformation

    if "threat" in options:
        raise UsageError("--threat says what the attack may do; leave out --set attack.threat")
    ball = _threat(threat, eps)
    name = attack or ("spatial" if isinstance(ball, Deformation) else "pgd")
    more = {} if steps is None else {"steps": steps}
    # made once here, where a threat that the attack does not know is still what was typed
    ATTACKS.create(name, {"threat": ball, **more, **options})
    found: dict[str, Any] = {"name": "attack", "attack": {"name": name, "threat": ball.spec, **more, **options}}
    found |= {} if eps is None else {"eps": eps}
    return found | ({} if smoothed is None else {"smoothed": smoothed})


def _threat(text: str, eps: str | None) -> Threat | Deformation:
    """l2:0.5 or rotation:0.3, or without a size if --eps says how much."""
    from shiftproof.perturbations.deformation import as_ball

    return as_ball(text if ":" in text or eps is None else f"{text}:{eps.split(',')[-1]}")


def _pictures(answers: list[Attacked]) -> str:
    return ", figures/attacked.svg" if len(answers[0].attacks) > 1 else ""


def _show(run: Run, answers: list[Attacked]) -> None:
    from shiftproof.evidence import seen_note
    from shiftproof.perturbations.threat import eps_text
    from shiftproof.runs.sample_words import describe_samples

    first = answers[0]
    norm, threat = str(first.fact("norm")), str(first.fact("threat"))
    header = ["domain", "clean", *(f"eps {eps_text(size, norm)}" for size in first.attacks)]
    rows = []
    for one in answers:
        cells = [f"{e.value:.1%}\n{100 * e.low:.1f} to {100 * e.high:.1f}" for e in [one.clean, *one.accuracy.values()]]
        rows.append([f"{one.domain}{seen_note(one.seen_in_training, chr(10))}", *cells])
    show_table(header, rows)
    for one in answers:
        facts = run.samples[one.domain]
        say(f"{one.domain}: {facts['n']:,} images ({describe_samples(facts, one.model)})")
    say(
        f"Accuracy of the {first.classifier} classifier under attack, {threat}: eps is {norm}, in "
        f"{first.fact('units')}; {first.fact('how')}. A stronger attack can only find more."
    )
    grouped = any(one.grouped for one in answers)
    kind = "intervals of a bootstrap over groups" if grouped else "Clopper-Pearson intervals over images"
    say(f"Small figures are 95 % {kind}.")
