"""`shiftproof attack`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shiftproof.cli import options as o
from shiftproof.cli.lines import show_compact, tell
from shiftproof.cli.measure import compute_of, finish, measure, study_of_one_model
from shiftproof.cli.show import outcomes_now, say, show_edits, show_findings, show_json
from shiftproof.cli.summary import show_doubts, show_end, show_samples

if TYPE_CHECKING:
    from shiftproof.perturbations.threat import Ball
    from shiftproof.probes.attack import Attack
    from shiftproof.report.sections.attacked import Attacked
    from shiftproof.report.tables import Table
    from shiftproof.runs import Run

__all__ = ["command"]


def command(
    data: o.Data,
    model: o.TrainedModel,
    threat: o.OneThreat,
    architecture: o.Architecture = None,
    domain: o.MeasuredDomains = None,
    attack: o.Attack = None,
    steps: o.Steps = None,
    eps: o.Eps = None,
    smoothed: o.Smoothed = None,
    limit: o.Limit = None,
    sample_seed: o.SampleSeed = 0,
    split: o.Split = None,
    require: o.Require = None,
    junit: o.Junit = None,
    budget: o.Budget = None,
    estimate: o.Estimate = False,
    seed: o.Seed = 0,
    out: o.Out = None,
    set_: o.SetOfAttack = None,
    workers: o.Workers = None,
    device: o.Device = "auto",
    cluster: o.Cluster = None,
    verbose: o.Verbose = False,
    no_images: o.NoImages = False,
    json: o.AsJson = False,
) -> None:
    """Attack a model on each domain: how much of its accuracy is left when samples may be changed a little.

    Writes a run: what every sample became (evidence/), a report, tables and pictures. The same command continues where
    it was stopped.
    """
    from dataclasses import asdict

    from shiftproof.probes.clean import Clean
    from shiftproof.report.sections.attacked import attacked_of

    compute = compute_of(workers, device, cluster)
    options = o.options_of_set(o.with_architecture(set_, architecture), o.ATTACK_KINDS)
    probes = [Clean(), _probe(threat, attack, steps, eps, smoothed, options["attack"])]
    asked: dict[str, Any] = {"limit": limit, "sample_seed": sample_seed, "split": split, "seed": seed, "budget": budget}
    study = study_of_one_model("attack", "Attacks on", data, model, options, probes, domain=domain, **asked)
    asked_of_run: dict[str, Any] = {"require": require, "estimate": estimate, "compute": compute, "junit": junit}
    run = measure(study, out, **asked_of_run, json=json, images=not no_images)
    if run is None:
        return
    answers = attacked_of(run.evidence)
    # the attack's own words stand beside those of the study's checks, and may be the same
    notes = list({one.message: one for one in run.content().notes if one.level != "pass"}.values())
    if json:
        every = [one.figures() | {"split": run.samples[one.domain]["split"]} for one in answers]
        # with several domains the first one's figures are at the top, and all are in `results`
        result = {**every[0], "model": model, "results": every, "findings": [one.message for one in notes]}
        outcomes = [asdict(one) for one in outcomes_now(run, require)]
        show_json({**result, "out": str(run.folder), "requirements": outcomes})
    else:
        _show(run, answers, verbose)
        show_findings(notes)
        show_edits(run.content().edited_texts)
        show_end(run, require, takes_target=False)
    finish(run, require, junit=junit, images=not no_images)


def _probe(
    threat: str,
    attack: str | None,
    steps: int | None,
    eps: str | None,
    smoothed: str | None,
    options: dict[str, Any],
) -> Attack:
    """The probe that was typed."""
    from shiftproof.attacks import ATTACKS, usual_attack
    from shiftproof.errors import UsageError
    from shiftproof.probes.attack import Attack

    if "threat" in options:
        raise UsageError("--threat says what the attack may do; leave out --set attack.threat")
    ball = _threat(threat, eps)
    name = attack or usual_attack(ball)
    made = ATTACKS.create(name, {"threat": ball, **({} if steps is None else {"steps": steps}), **options})
    return Attack(made, eps or (), smoothed)  # type: ignore[arg-type]


def _threat(text: str, eps: str | None) -> Ball:
    """l2:0.5 or rotation:0.3, or without a size if --eps says how much."""
    from shiftproof.errors import UsageError
    from shiftproof.perturbations.balls import as_ball

    # a deformation has options after commas: dct,k=3:0.1
    if sum(bool(part.strip()) and "=" not in part for part in text.split(",")) > 1:
        raise UsageError(
            f"attack takes one threat, not {text!r}; attack with each in turn, or with all: shiftproof audit --threat "
            f"{text}; several sizes of one go into --eps 0.01,0.02"
        )
    return as_ball(text if ":" in text or eps is None else f"{text}:{eps.split(',')[-1]}")


def _show(run: Run, answers: list[Attacked], verbose: bool) -> None:
    """A table of accuracy under attack, and what it is of."""
    from shiftproof.evidence.titles import relative_size
    from shiftproof.perturbations.threat import eps_text

    first = answers[0]
    norm, threat = str(first.fact("norm")), str(first.fact("threat"))
    say(f"\n{run.content().title}", "bold")
    show_samples(run)
    show_doubts(run.content())
    say("")
    show_compact(_table(answers, norm))
    say("")
    tell(
        "attack",
        f"{threat} on the {first.classifier} classifier: eps is {norm}, in {first.fact('units')}; {first.fact('how')}. "
        "A stronger attack can only find more.",
    )
    for size in first.attacks:
        if relative := relative_size([one for answer in answers for one in answer.attacks[size].measurements], size):
            tell("", f"eps {eps_text(size, norm)} is {relative}.")
    if verbose:
        grouped = any(one.grouped for one in answers)
        kind = "intervals of a bootstrap over groups" if grouped else "Clopper-Pearson intervals over samples"
        tell("intervals", f"are 95 % {kind}.")


def _table(answers: list[Attacked], norm: str) -> Table:
    """A row for each domain: accuracy as it is and within each size."""
    from shiftproof.evidence import seen_note
    from shiftproof.perturbations.threat import eps_text, size_text
    from shiftproof.report.tables import Cell, Heading, Row, Table, percent_cell

    sizes = [size_text(size, norm) if norm == "edits" else f"eps {eps_text(size, norm)}" for size in answers[0].attacks]
    rows = []
    for one in answers:
        note = seen_note(one.seen_in_training)
        figures = map(percent_cell, [one.clean, *one.accuracy.values()])
        rows.append(Row([Cell(one.domain, ("", note) if note else ()), *figures]))
    return Table("attacked", [Heading("domain"), *(Heading(text, tint=True) for text in ("clean", *sizes))], rows)
