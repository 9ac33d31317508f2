"""`shiftproof certify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from shiftproof.cli.certifiers import certifiers_from
from shiftproof.cli.options import (
    EXIT_FAILED,
    Architecture,
    AsJson,
    Data,
    NoiseSeed,
    SampleSeed,
    Split,
    Workers,
    absolute,
    duration,
    options_of_set,
    repeat_command,
    say,
    show_json,
    show_table,
    with_architecture,
)

if TYPE_CHECKING:
    from shiftproof.certification import Certifier
    from shiftproof.report.certified import Series
    from shiftproof.studies.certifying import Certified, Place, Question
    from shiftproof.types import Cost

__all__ = ["command"]


def command(
    data: Data,
    model: Annotated[str, typer.Option("--model", help="file:PATH of a trained model, or python:PKG.MOD:FN.")],
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
        int | None, typer.Option("--n", help="Votes a sample, at most.", show_default="as the certifier")
    ] = None,
    n0: Annotated[
        int | None, typer.Option("--n0", help="Votes that choose the class.", show_default="as the certifier")
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
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many samples a domain.")] = None,
    sample_seed: SampleSeed = 0,
    split: Split = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Say what it would cost, and stop.")] = False,
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

    Writes certificates with their votes (Parquet), logs that other tools read (tsv), a table and a picture.
    """
    import os

    from shiftproof.certification import CERTIFIERS, Radii
    from shiftproof.domains import load_domains
    from shiftproof.domains.splits import check_part
    from shiftproof.errors import UsageError
    from shiftproof.execution import check_writable
    from shiftproof.models import MODELS, load_model
    from shiftproof.models.load import check_trained
    from shiftproof.models.prepared.prepare import check_compute
    from shiftproof.report.certified import nice_radii, write_certified
    from shiftproof.studies.certifying import Question, calibration_pool, places
    from shiftproof.studies.data import check_classes
    from shiftproof.studies.resolved import digest

    check_compute(precision, backend)
    check_part(split)
    asked_radii = None if radii is None else Radii(_numbers(radii)).radii
    alphas = [] if alpha is None else list(_numbers(alpha))
    options = options_of_set(with_architecture(set_, architecture), ("data", "model", "noise", "certifier"))
    given = {
        "noise": noise,
        "sigma": sigma,
        "n": n,
        "n0": n0,
        "alpha": alphas[0] if alphas else None,
        "stop": _stop(stop, radii),
        "skip_wrong": skip_wrong,
        "runner_up": runner_up,
    }
    settings = certifiers_from(certifier, {k: v for k, v in given.items() if v is not None}, options)
    domains = load_domains(data, **options["data"])
    check_classes(domains)
    if model in MODELS:
        raise UsageError(f"{model!r} is a network without training; certify a trained one: --model file:PATH")
    check_trained(model, options["model"])
    loaded = load_model(model, domains, **options["model"])
    # what a function of the user's returns is as it is: a model in train mode is refused
    if not model.startswith("python:"):
        loaded.eval()
    shaped = "calibration" in CERTIFIERS[certifier].options
    if calibration is not None and not shaped:
        raise UsageError(f"--calibration means nothing to {certifier}")
    pool = calibration_pool(domains, _names(calibration), model) if shaped else None
    where = places(domains, _names(domain), model, limit, sample_seed, split, [one.name for one in pool or ()])
    source: dict[str, Any] = {
        "model": absolute(model),
        "data": absolute(data),
        "options": {key: options[key] for key in ("data", "model")},
    }
    source |= {"certifier": certifier, "limit": limit, "domain": domain, "calibration": calibration}
    source |= {"sample_seed": sample_seed, "split": split}
    question = Question(loaded, where, settings, alphas[1:], seed, precision, backend, pool, source)  # type: ignore[arg-type]
    question.check()
    count = workers or os.cpu_count() or 1
    if estimate:
        _show_costs(question.estimate(count), count, json)
        return
    folder = out or Path("runs") / f"certify-{digest(question.asked)}"
    check_writable(folder)
    results = question.answer(folder, count, progress="lines")
    if (claimed := [one for one in results if one.certificates.unsound]) and len(claimed) == len(results):
        _show_claimed(claimed, asked_radii, folder, json)
    series = [result.series(_name(result, question)) for result in results]
    shown = asked_radii or nice_radii(series)
    one_model = len(where) == 1 and len(settings) > 1 and not question.alphas
    write_certified(series, shown, folder, best_of="noise" if one_model else None, model=model)
    if json:
        every = [result.summary(model, shown) for result in results]
        # with several domains or sigmas the first one's figures are at the top, and all are in `results`
        show_json({**every[0], "results": every, "out": str(folder)})
        return
    _show(where, series, shown, sum(result.certificates.passes for result in results))
    _show_caps(results)
    if (used := results[0].certificates.seed) is not None and seed is None and any(one.alpha > 0 for one in series):
        say(f"\nThe seed of the noise, {used}, was drawn for this run. The same votes again:")
        # a command is copied as it is: nothing breaks its line
        typer.echo(f"  {repeat_command(used)}")
    say(f"\nwritten to {folder}: certificates/, logs/, tables/certified.csv, figures/certified.svg and .png")


def _show_claimed(claimed: list[Certified], radii: tuple[float, ...] | None, folder: Path, json: bool) -> NoReturn:
    """What an unsound rule claims is shown as that, fails, and is written nowhere as certified."""
    from shiftproof.evidence.metrics import claimed_accuracy

    asked = radii or (0.0, claimed[0].certificates.scale)
    rows = []
    for one in claimed:
        values = claimed_accuracy(one.certificates, one.labels, asked)
        rows.append([one.domain, one.certificates.title, *(f"{value:.1%}" for value in values)])
    if json:
        every = [dict(zip(("domain", "certificate", *map(str, asked)), row, strict=True)) for row in rows]
        show_json({"unsound": claimed[0].certificates.unsound, "claimed": every, "out": str(folder)})
    else:
        show_table(["domain", "rule", *(f"claimed at {radius:g}" for radius in asked)], rows)
        say(f"fail  {claimed[0].certificates.guarantee}")
    raise typer.Exit(EXIT_FAILED)


def _name(result: Certified, question: Question) -> str:
    """What tells a curve from the others by its colour; of several domains, dashes tell the certificates."""
    first = result.domain if len(question.where) > 1 else result.certificates.title
    return f"{first}, alpha {result.certificates.alpha:g}" if question.alphas else first


def _show_caps(results: list[Certified]) -> None:
    """What no radius can exceed, whatever the model: that of unanimous votes, or of the outermost samples."""
    caps = {}
    for result in results:
        certificates, setting = result.certificates, result.setting
        if hasattr(setting, "largest_radius"):
            caps[certificates.title] = setting.largest_radius(certificates.classes)
        elif hasattr(setting, "reach") and certificates.levels is not None:
            caps[certificates.title] = setting.reach(round(certificates.alpha / (2 * certificates.levels.final)))
    if caps:
        limits = ", ".join(f"{cap:.4g} ({title})" for title, cap in caps.items())
        say(f"With so many samples at this alpha no radius can exceed {limits}, however sure the model is.")


def _radius(value: float) -> str:
    """Four digits, and of what is next to nothing that it is."""
    return f"{value:.4f}" if value == 0 or value >= 1e-3 else f"{value:.1e}"


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _numbers(text: str) -> tuple[float, ...]:
    from shiftproof.errors import UsageError

    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{text!r} should be a number, or several with commas, such as 0.25,0.5") from error
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"{text!r} names the same number twice")
    return numbers


def _stop(stop: str | None, radii: str | None) -> str | None:
    from shiftproof.errors import UsageError

    if stop != "radii":
        return stop
    if radii is None:
        raise UsageError("--stop radii needs the radii that are to be decided, such as --radii 0,0.25,0.5")
    return f"radii:{radii}"


def _show_costs(costs: list[tuple[Place, Certifier, Cost]], workers: int, json: bool) -> None:
    each = [(c.passes, c.seconds, c.most_passes, c.most_seconds) for _, _, c in costs]
    passes, seconds, most_passes, most_seconds = map(sum, zip(*each, strict=True))
    if json:
        total = {"forward_passes": passes, "seconds": seconds}
        show_json({**total, "most_forward_passes": most_passes, "most_seconds": most_seconds})
        return
    rows = [
        [place.domain.name, setting.title, f"{c.passes:,}", duration(c.seconds), duration(c.most_seconds)]
        for place, setting, c in costs
    ]
    rows.append(["total", "", f"{passes:,}", duration(seconds), duration(most_seconds)])
    show_table(["domain", "certificate", "forward passes", "time", "at most"], rows)
    say(f"with {workers} workers; measured on this machine just now, on a few samples")


def _show(where: list[Place], series: list[Series], radii: tuple[float, ...], passes: int) -> None:
    from shiftproof.certification import TOGETHER

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
    for place in where:
        say(f"{place.domain.name}: {len(place.domain):,} images ({place.what})")
    say(f"{passes:,} forward passes. Certified accuracy is of all images; r is {series[0].norm}, {series[0].units}.")
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
