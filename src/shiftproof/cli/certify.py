"""`shiftproof certify`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from shiftproof.cli.certifiers import certifiers_from
from shiftproof.cli.options import (
    EXIT_FAILED,
    Architecture,
    AsJson,
    Data,
    Estimate,
    Limit,
    NoiseSeed,
    Require,
    SampleSeed,
    Split,
    TrainedModel,
    Workers,
    absolute,
    names_of,
    numbers_of,
    options_of_set,
    outcomes_now,
    repeat_command,
    say,
    show_costs,
    show_json,
    show_outcomes,
    show_table,
    with_architecture,
)

if TYPE_CHECKING:
    from shiftproof.evidence import Measurement
    from shiftproof.probes.certify import Certify
    from shiftproof.report.certified import Series
    from shiftproof.runs import Run

__all__ = ["command"]


def command(
    data: Data,
    model: TrainedModel,
    architecture: Architecture = None,
    domain: Annotated[str | None, typer.Option("--domain", help="Domains to certify: a,b.", show_default="all")] = None,
    certifier: Annotated[
        str, typer.Option("--certifier", help="See: shiftproof ls certifiers, shiftproof explain")
    ] = "randomized-smoothing",
    noise: Annotated[
        str | None,
        typer.Option("--noise", help="uniform, rotation ... See: shiftproof ls noise", show_default="gaussian"),
    ] = None,
    sigma: Annotated[
        str | None,
        typer.Option(
            "--sigma",
            help="Scale of the noise; for pixels, which are in [0, 1]. Several with commas.",
            show_default="as the certifier, or 0.25",
        ),
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Noise samples per certificate, at most.", show_default="as the certifier")
    ] = None,
    n0: Annotated[
        int | None,
        typer.Option("--n0", help="Noise samples that choose the class.", show_default="as the certifier"),
    ] = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            "--alpha",
            help="Probability that a certificate is wrong, at most; several for randomized-smoothing.",
            show_default="as the certifier",
        ),
    ] = None,
    radii: Annotated[
        str | None, typer.Option("--radii", help="Radii to show: 0,0.25,0.5.", show_default="round ones")
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option("--stop", help="full; radii (as soon as --radii are decided); within:0.95.", show_default="full"),
    ] = None,
    skip_wrong: Annotated[
        bool | None, typer.Option("--skip-wrong", help="Do not certify predictions that are wrong.")
    ] = None,
    runner_up: Annotated[
        bool | None,
        typer.Option("--runner-up/--no-runner-up", help="Bound the second class on its own.", show_default="yes"),
    ] = None,
    calibration: Annotated[
        str | None,
        typer.Option(
            "--calibration",
            help="Domains whose training images adapt the model: a,b.",
            show_default="those it was trained on",
        ),
    ] = None,
    precision: Annotated[str, typer.Option("--precision", help="f32, or bf16 where the processor has it.")] = "f32",
    backend: Annotated[str, typer.Option("--backend", help="torch, or openvino (extra 'fast').")] = "torch",
    limit: Limit = None,
    sample_seed: SampleSeed = 0,
    split: Split = None,
    require: Require = None,
    estimate: Estimate = False,
    seed: NoiseSeed = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to.", show_default="runs/certify-<hash>")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Options of data, model, noise, certifier: model.architecture=cnn, certifier.rule=selection.",
        ),
    ] = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Certify a model's predictions on each domain; the same command continues where it was stopped.

    Writes a run: votes and radii (evidence/), a report, tables, pictures, and logs that other tools read (tsv).
    """
    import os
    from dataclasses import asdict

    from shiftproof.models.prepared.prepare import check_compute
    from shiftproof.probes.certify import Certify
    from shiftproof.report.requirements import Requirement
    from shiftproof.runs.engine import run_study
    from shiftproof.runs.estimate import estimate_study
    from shiftproof.runs.one_model import OneModel, certifier_config
    from shiftproof.runs.prepare import prepare_study

    check_compute(precision, backend)
    shown = () if radii is None else _radii(radii)
    alphas = [] if alpha is None else list(numbers_of(alpha))
    options = options_of_set(with_architecture(set_, architecture), ("data", "model", "noise", "certifier"))
    given = {"noise": noise, "sigma": sigma, "n": n, "n0": n0, "alpha": alphas[0] if alphas else None}
    given |= {"stop": _stop(stop, radii), "skip_wrong": skip_wrong, "runner_up": runner_up}
    made = certifiers_from(certifier, {k: v for k, v in given.items() if v is not None}, options)
    # what shares noise is one probe; others have one each
    pieces = [made] if certifier == "randomized-smoothing" else [[one] for one in made]
    probes = [Certify(tuple(piece), precision, backend, tuple(alphas[1:])) for piece in pieces]  # type: ignore[arg-type]
    configs: list[dict[str, Any]] = [
        {
            "name": "certify",
            "certifier": [certifier_config(one) for one in probe.certifiers],
            "precision": precision,
            "backend": backend,
            "alphas": alphas[1:],
        }
        for probe in probes
    ]
    asked = OneModel(absolute(data), absolute(model), options, names_of(domain), limit, sample_seed, split, seed)
    study = asked.study("certify", "Certificates of", configs, _calibration(calibration, certifier, model, data))
    count = workers or os.cpu_count() or 1
    requirements = [Requirement.parse(text) for text in require or []]
    prepared = prepare_study(study)
    if estimate:
        show_costs(estimate_study(prepared, count), json)
        return
    run = run_study(prepared, out, workers=count, progress="lines", require=requirements, radii=shown)
    run.export()
    certifying = {setting: one for probe in probes for setting, one in probe.settings.items()}
    results = list(run.evidence.where(probe="certify"))
    if all(one.fact("unsound") for one in results):
        _show_claimed(results, shown, run, json)
    series, outcomes = run.content().series, outcomes_now(run, require)
    at = run.content().radii_of(series)
    if json:
        measured = {(one.setting, one.domain): one for one in results}
        every = [_figures(run, probes, measured[one.setting, one.domain], one, at) for one in series]
        # with several domains or sigmas the first one's figures are at the top, and all are in `results`
        judged = [asdict(one) for one in outcomes]
        show_json({**every[0], "results": every, "out": str(run.folder), "requirements": judged})
    else:
        _show(run, series, at)
        _show_caps(results, certifying, len(run.record["classes"]))
        if seed is None and any(one.alpha > 0 for one in series):
            say(f"\nThe seed of the noise, {run.record['noise_seed']}, was drawn for this run. The same votes again:")
            # a command is copied as it is: nothing breaks its line
            typer.echo(f"  {repeat_command(run.record['noise_seed'])}")
        say(f"\nwritten to {run.folder}: report.html, evidence/, logs/, tables/certified.csv, figures/certified.svg")
        show_outcomes(outcomes)
    if any(not one.met for one in outcomes):
        raise typer.Exit(EXIT_FAILED)


def _calibration(names: str | None, certifier: str, model: str, data: str) -> list[str] | None:
    """Domains whose training images adapt the model: as told, or those that its record says it was trained on."""
    from shiftproof.certification import CERTIFIERS
    from shiftproof.errors import UsageError
    from shiftproof.runs.models import card_of
    from shiftproof.runs.seen import seen_domains

    if "calibration" in CERTIFIERS[certifier].options:
        return names_of(names) or sorted(seen_domains(card_of(model), data)) or None
    if names is not None:
        raise UsageError(f"{certifier} does not take --calibration")
    return None


def _radii(text: str) -> tuple[float, ...]:
    from shiftproof.certification import Radii

    return Radii(numbers_of(text)).radii


def _stop(stop: str | None, radii: str | None) -> str | None:
    from shiftproof.errors import UsageError

    if stop != "radii":
        return stop
    if radii is None:
        raise UsageError("--stop radii needs the radii that are to be decided, such as --radii 0,0.25,0.5")
    return f"radii:{radii}"


def _figures(
    run: Run, probes: list[Certify], one: Measurement, series: Series, radii: tuple[float, ...]
) -> dict[str, Any]:
    """All figures of a measurement, for --json."""
    from shiftproof.evidence import EvidenceStore
    from shiftproof.report.certified import figures

    probe = next(probe for probe in probes if one.setting in probe.settings)
    facts = run.samples[one.domain]
    return figures(series, radii) | {
        "images": len(one),
        "split": facts["split"],
        "sampled": one.fact("sampled"),
        "seen_in_training": one.seen_in_training,
        "n": one.fact("votes"),
        "seed": one.fact("seed"),
        "precision": one.fact("precision"),
        "forward_passes": one.fact("passes"),
        "seconds": float(one["seconds"].sum()),
        "certificates": str(EvidenceStore(run.folder / "evidence").path(one.model, one.domain, "certify", repr(probe))),
    }


def _show_claimed(claimed: list[Measurement], radii: tuple[float, ...], run: Run, json: bool) -> NoReturn:
    """What an unsound rule claims is shown as that, fails, and is written nowhere as certified."""
    from shiftproof.evidence.certificates import certificates_in
    from shiftproof.evidence.metrics import claimed_accuracy

    first = claimed[0]
    asked = radii or (0.0, float(first.fact("scale")))
    classes = len(run.record["classes"])
    figures = [
        [float(v) for v in claimed_accuracy(certificates_in(one, classes), one["label"], asked)] for one in claimed
    ]
    if json:
        every = [
            {"domain": one.domain, "certificate": one.title, **dict(zip(map(str, asked), values, strict=True))}
            for one, values in zip(claimed, figures, strict=True)
        ]
        show_json({"unsound": first.fact("unsound"), "claimed": every, "out": str(run.folder)})
    else:
        rows = [
            [one.domain, one.title, *(f"{value:.1%}" for value in values)]
            for one, values in zip(claimed, figures, strict=True)
        ]
        show_table(["domain", "rule", *(f"claimed at {radius:g}" for radius in asked)], rows)
        say(f"fail  {first.fact('guarantee')}")
    raise typer.Exit(EXIT_FAILED)


def _show_caps(results: list[Measurement], certifying: dict[str, Any], classes: int) -> None:
    """What no radius can exceed, whatever the model: that of unanimous votes, or of the outermost samples."""
    from shiftproof.certification.sampling.budget import Levels

    caps = {}
    for one in results:
        certifier, levels = certifying[one.setting], one.fact("levels")
        name = f"{one.title}, alpha {one.fact('alpha'):g}"
        caps[name] = certifier.largest_radius(classes, None if levels is None else Levels(**levels))
    known = {name: cap for name, cap in caps.items() if math.isfinite(cap)}
    if known:
        limits = "; ".join(f"{cap:.4g} ({name})" for name, cap in known.items())
        say(f"With so many noise samples no radius can exceed {limits}, however sure the model is.")


def _radius(value: float) -> str:
    """Four digits, and of what is next to nothing that it is."""
    return f"{value:.4f}" if value == 0 or value >= 1e-3 else f"{value:.1e}"


def _show(run: Run, series: list[Series], radii: tuple[float, ...]) -> None:
    from shiftproof.certification import TOGETHER
    from shiftproof.runs.sample_words import describe_samples

    header = ["domain", "certificate", "alpha", *(f"r >= {radius:g}" for radius in radii), "mean radius", "abstained"]
    rows = []
    for one in series:
        cells = [f"{e.value:.1%}\n{100 * e.low:.1f} to {100 * e.high:.1f}" for e in map(one.at, radii)]
        mean = f"{_radius(one.mean_radius())}{' or more' if one.biased else ''}\n"
        mean += f"{_radius(one.mean_radius('correct'))} if right"
        abstained = "not known" if one.abstained is None else f"{one.abstained:.1%}"
        domain = f"{one.domain}\n{one.note}" if one.note else one.domain
        rows.append([domain, one.title, f"{one.alpha:g}", *cells, mean, abstained])
    show_table(header, rows)
    for name, facts in run.samples.items():
        say(f"{name}: {facts['n']:,} images ({describe_samples(facts, series[0].model)})")
    # further alphas are read from the same votes
    counted = {(one.domain, one.title): one.fact("passes") for one in run.evidence.where(probe="certify")}
    say(
        f"{sum(counted.values()):,} forward passes. Certified accuracy is of all images; r is {series[0].norm}, "
        f"{series[0].units}."
    )
    say(f"\nguarantee  {series[0].guarantee}")
    others = list(
        dict.fromkeys(f"{one.title} at alpha {one.alpha:g}" for one in series if one.heading != series[0].heading)
    )
    if others:
        say(f"           Likewise for {', '.join(others)}.")
    random = any(one.alpha > 0 for one in series)
    say(f"\n{TOGETHER}" if random else "")
    kind = "intervals of a bootstrap over groups" if series[0].grouped else "Clopper-Pearson intervals over images"
    given = ", for this noise; the upper limit does not bound what more votes would certify" if random else ""
    say(f"Small figures are 95 % {kind}{given}.")
