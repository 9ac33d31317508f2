"""`shiftproof attack`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftproof.cli.options import (
    Architecture,
    AsJson,
    Data,
    SampleSeed,
    Seed,
    Split,
    Workers,
    options_of_set,
    say,
    show_findings,
    show_json,
    show_table,
    with_architecture,
)

if TYPE_CHECKING:
    from shiftproof.perturbations import Deformation, Threat
    from shiftproof.studies.attacking import Attacked

__all__ = ["command"]


def command(
    data: Data,
    model: Annotated[str, typer.Option("--model", help="file:PATH of a trained model, or python:PKG.MOD:FN.")],
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
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many samples a domain.")] = None,
    sample_seed: SampleSeed = 0,
    split: Split = None,
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

    Writes a table (csv), the figures (json) and, for several sizes, a picture.
    """
    import os

    from shiftproof.attacks import ATTACKS
    from shiftproof.domains import load_domains
    from shiftproof.domains.splits import check_part
    from shiftproof.errors import UsageError
    from shiftproof.execution import check_writable
    from shiftproof.models import MODELS, load_model
    from shiftproof.models.load import check_trained
    from shiftproof.perturbations import Deformation
    from shiftproof.perturbations.noise import as_noise
    from shiftproof.perturbations.threat import parse_eps
    from shiftproof.studies.attacking import Assault
    from shiftproof.studies.certifying import places
    from shiftproof.studies.data import check_classes
    from shiftproof.studies.resolved import digest

    options = options_of_set(with_architecture(set_, architecture), ("attack", "data", "model"))
    if "threat" in options["attack"]:
        raise UsageError("--threat says what the attack may do; leave out --set attack.threat")
    ball = _threat(threat, eps)
    chosen = {
        "threat": ball,
        **({} if steps is None else {"steps": steps}),
        **options["attack"],
    }
    method = ATTACKS.create(attack or ("spatial" if isinstance(ball, Deformation) else "pgd"), chosen)
    more = [] if eps is None else [parse_eps(part.strip()) for part in eps.split(",")]
    budgets = list(dict.fromkeys([*more, method.threat.eps]))
    noise = None if smoothed is None else as_noise(smoothed)
    domains = load_domains(data, **options["data"])
    check_classes(domains)
    if model in MODELS:
        raise UsageError(f"{model!r} is a network without training; attack a trained one: --model file:PATH")
    check_trained(model, options["model"])
    loaded = load_model(model, domains, seed=seed, **options["model"]).eval()
    names = None if domain is None else [name.strip() for name in domain.split(",")]
    where = places(domains, names, model, limit, sample_seed, check_part(split))
    assault = Assault(loaded, where, method, budgets, noise, seed)
    folder = out or Path("runs") / f"attack-{digest(assault.asked)}"
    assault.check(folder)
    check_writable(folder)
    answers = assault.run(workers or os.cpu_count() or 1, progress="lines")
    written = assault.write(answers, folder)
    findings = [*assault.findings(), *assault.doubts()]
    if json:
        every = [one.summary() for one in answers]
        notes = [finding.message for finding in findings]
        # with several domains the first one's figures are at the top, and all are in `results`
        show_json({**every[0], "model": model, "results": every, "findings": notes, "out": str(folder)})
        return
    _show(answers)
    show_findings(findings)
    say(f"\nwritten to {folder}: {', '.join(written)}")


def _threat(text: str, eps: str | None) -> Threat | Deformation:
    """l2:0.5 or rotation:0.3, or without a size if --eps says how much."""
    from shiftproof.perturbations.deformation import as_ball

    return as_ball(text if ":" in text or eps is None else f"{text}:{eps.split(',')[-1]}")


def _show(answers: list[Attacked]) -> None:
    from shiftproof.evidence import seen_note
    from shiftproof.perturbations.threat import eps_text

    first = answers[0].results
    header = ["domain", "clean", *(f"eps {eps_text(result.threat.eps, result.threat.norm)}" for result in first)]
    rows = []
    for one in answers:
        estimates = [one.clean, *(one.accuracy(result) for result in one.results)]
        cells = [f"{e.value:.1%}\n{100 * e.low:.1f} to {100 * e.high:.1f}" for e in estimates]
        note = seen_note(one.place.seen_in_training, "\n")
        rows.append([f"{one.place.domain.name}{note}", *cells])
    show_table(header, rows)
    for one in answers:
        say(f"{one.place.domain.name}: {len(one.place.domain):,} images ({one.place.what})")
    threat = first[0].threat
    say(
        f"Accuracy of the {first[0].classifier} classifier under attack, {threat.kind}: eps is {threat.norm}, in "
        f"{threat.units}; {first[0].how}. A stronger attack can only find more."
    )
    grouped = any(one.place.domain.groups is not None for one in answers)
    kind = "intervals of a bootstrap over groups" if grouped else "Clopper-Pearson intervals over images"
    say(f"Small figures are 95 % {kind}.")
