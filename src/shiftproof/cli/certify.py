"""`shiftproof certify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli.options import AsJson, Data, Seed, Workers, show_json, show_table

if TYPE_CHECKING:
    from shiftproof.certification.smoothing import RandomizedSmoothing
    from shiftproof.perturbations.noise import Noise
    from shiftproof.report.certified import Series
    from shiftproof.studies.certifying import Certified, Place, Question
    from shiftproof.types import Cost

__all__ = ["command"]


def command(
    data: Data,
    model: Annotated[str, typer.Option("--model", help="file:PATH of a trained model, or python:PKG.MOD:FN.")],
    domain: Annotated[str | None, typer.Option("--domain", help="Domains to certify: a,b.", show_default="all")] = None,
    certifier: Annotated[
        str, typer.Option("--certifier", help="See: shiftproof ls certifiers")
    ] = "randomized-smoothing",
    noise: Annotated[
        str, typer.Option("--noise", help="gaussian, uniform, rotation ... See: shiftproof ls noise")
    ] = "gaussian",
    sigma: Annotated[
        str, typer.Option("--sigma", help="Scale of the noise; for pixels, which are in [0, 1]. Several with commas.")
    ] = "0.25",
    n: Annotated[int, typer.Option("--n", help="Votes a sample, at most.")] = 100_000,
    n0: Annotated[int, typer.Option("--n0", help="Votes that choose the class.")] = 100,
    alpha: Annotated[
        str, typer.Option("--alpha", help="Probability that a certificate is wrong, at most; several with commas.")
    ] = "0.001",
    radii: Annotated[
        str | None, typer.Option("--radii", help="Radii to show: 0,0.25,0.5.", show_default="round ones")
    ] = None,
    stop: Annotated[
        str, typer.Option("--stop", help="full; radii (as soon as --radii are decided); within:0.95.")
    ] = "full",
    skip_wrong: Annotated[
        bool, typer.Option("--skip-wrong", help="Do not certify predictions that are wrong.")
    ] = False,
    runner_up: Annotated[
        bool, typer.Option("--runner-up/--no-runner-up", help="Bound the second class on its own.")
    ] = True,
    precision: Annotated[str, typer.Option("--precision", help="f32, or bf16 where the processor has it.")] = "f32",
    backend: Annotated[str, typer.Option("--backend", help="torch, or openvino (extra 'fast').")] = "torch",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most so many samples a domain.")] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Say what it would cost, and stop.")] = False,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to.", show_default="runs/certify-<hash>")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Options of data, model and noise: data.size=64, model.architecture=cnn, noise.k=3."
        ),
    ] = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Certify a model's predictions on each domain; the same command continues where it was stopped.

    Writes certificates with their votes (Parquet), logs that other tools read (tsv), a table and a picture.
    """
    import os

    from shiftproof.certification import Radii
    from shiftproof.domains import load_domains
    from shiftproof.errors import UsageError
    from shiftproof.execution import check_writable
    from shiftproof.models import MODELS, load_model
    from shiftproof.models.prepare import check_compute
    from shiftproof.report.certified import nice_radii, write_certified
    from shiftproof.studies.certifying import Question, places
    from shiftproof.studies.jobs import digest

    check_compute(precision, backend)
    asked_radii = None if radii is None else Radii(_numbers(radii)).radii
    first_alpha, *alphas = _numbers(alpha)
    data_options, model_options, noise_options = _options(set_ or [])
    noises = _noises(noise, sigma, noise_options)
    settings = _settings(certifier, noises, n, n0, first_alpha, radii, stop, skip_wrong, runner_up)
    domains = load_domains(data, **data_options)
    if model in MODELS:
        raise UsageError(f"{model!r} is a network without training; certify a trained one: --model file:PATH")
    loaded = load_model(model, domains, seed=seed, **model_options).eval()
    where = places(domains, None if domain is None else [name.strip() for name in domain.split(",")], model, limit)
    question = Question(loaded, where, settings, alphas, seed, precision, backend)  # type: ignore[arg-type]
    question.check()
    count = workers or os.cpu_count() or 1
    if estimate:
        _show_costs(question.estimate(count), count, json)
        return
    folder = out or Path("runs") / f"certify-{digest(question.asked)}"
    check_writable(folder)
    results = question.answer(folder, count, progress="lines")
    series = [result.series(_name(result, question)) for result in results]
    shown = asked_radii or nice_radii(series)
    one_model = len(where) == 1 and len(settings) > 1 and not alphas
    write_certified(series, shown, folder, best_of="noise" if one_model else None)
    if json:
        every = [result.summary(model, shown) for result in results]
        # with several domains or sigmas the first one's figures are at the top, and all are in `results`
        show_json({**every[0], "results": every, "out": str(folder)})
        return
    _show(where, series, shown, sum(result.certificates.passes for result in results))
    _show_caps(settings, results[0].certificates.classes)
    typer.echo(f"\nwritten to {folder}: certificates/, logs/, tables/certified.csv, figures/certified.svg")


def _name(result: Certified, question: Question) -> str:
    """What tells a curve from the others by its colour; of several domains, dashes tell the noise."""
    from shiftproof.perturbations.noise import label

    first = result.domain if len(question.where) > 1 else label(result.setting.noise)
    return f"{first}, alpha {result.certificates.alpha:g}" if question.alphas else first


def _show_caps(settings: list[RandomizedSmoothing], classes: int) -> None:
    from shiftproof.perturbations.noise import label

    caps = ", ".join(f"{one.largest_radius(classes):.4g} ({label(one.noise)})" for one in settings)
    n, alpha = settings[0].n, settings[0].alpha
    typer.echo(f"With n = {n:,} and alpha = {alpha:g} no radius can exceed {caps}, however sure the model is.")


def _numbers(text: str) -> tuple[float, ...]:
    from shiftproof.errors import UsageError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{text!r} should be a number, or several with commas, such as 0.25,0.5") from error


def _noises(text: str, sigma: str, options: dict[str, Any]) -> list[Noise]:
    """One noise for each sigma; `gaussian:0.5` says both."""
    from shiftproof.errors import UsageError
    from shiftproof.perturbations.noise import NOISES

    name, _, given = text.partition(":")
    scale = next(iter(NOISES[name].options))
    chosen = [NOISES.create(name, {scale: value.strip(), **options}) for value in (given or sigma).split(",")]
    if len(set(chosen)) != len(chosen):
        raise UsageError(f"--sigma {sigma} names the same noise twice")
    return chosen


def _settings(
    certifier: str,
    noises: list[Noise],
    n: int,
    n0: int,
    alpha: float,
    radii: str | None,
    stop: str,
    skip_wrong: bool,
    runner_up: bool,
) -> list[RandomizedSmoothing]:
    from shiftproof.certification import CERTIFIERS
    from shiftproof.errors import UsageError

    if stop == "radii":
        if radii is None:
            raise UsageError("--stop radii needs the radii that are to be decided, such as --radii 0,0.25,0.5")
        stop = f"radii:{radii}"
    options = {"n": n, "n0": n0, "alpha": alpha, "stop": stop, "skip_wrong": skip_wrong, "runner_up": runner_up}
    return [CERTIFIERS.create(certifier, {"noise": one, **options}) for one in noises]  # type: ignore[misc]


def _options(changes: list[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """--set data.size=64, --set model.architecture=cnn, --set noise.k=3."""
    from shiftproof.errors import UnknownName
    from shiftproof.studies.files import apply_override

    document: dict[str, Any] = {}
    for change in changes:
        apply_override(document, change)
    for key in document:
        if key not in ("data", "model", "noise"):
            raise UnknownName("key of --set", key, ["data", "model", "noise"])
    return document.get("data", {}), document.get("model", {}), document.get("noise", {})


def _show_costs(costs: list[tuple[Place, RandomizedSmoothing, Cost]], workers: int, json: bool) -> None:
    from shiftproof.perturbations.noise import label

    each = [(c.passes, c.seconds, c.most_passes, c.most_seconds) for _, _, c in costs]
    passes, seconds, most_passes, most_seconds = map(sum, zip(*each, strict=True))
    if json:
        total = {"forward_passes": passes, "seconds": seconds}
        show_json({**total, "most_forward_passes": most_passes, "most_seconds": most_seconds})
        return
    rows = [
        [place.domain.name, label(setting.noise), f"{c.passes:,}", _time(c.seconds), _time(c.most_seconds)]
        for place, setting, c in costs
    ]
    rows.append(["total", "", f"{passes:,}", _time(seconds), _time(most_seconds)])
    show_table(["domain", "noise", "forward passes", "time", "at most"], rows)
    typer.echo(f"with {workers} workers; measured on this machine just now, on a few samples")


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _show(where: list[Place], series: list[Series], radii: tuple[float, ...], passes: int) -> None:
    from shiftproof.certification import TOGETHER

    header = ["domain", "noise", "alpha", *(f"r >= {radius:g}" for radius in radii), "mean radius", "abstained"]
    rows = []
    for one in series:
        cells = [f"{e.value:.1%}\n{100 * e.low:.1f} to {100 * e.high:.1f}" for e in map(one.at, radii)]
        mean = f"{one.mean_radius():.4f}{' or more' if one.biased else ''}\n{one.mean_radius('correct'):.4f} if right"
        abstained = "not known" if one.abstained is None else f"{one.abstained:.1%}"
        rows.append([one.domain, one.noise, f"{one.alpha:g}", *cells, mean, abstained])
    show_table(header, rows)
    for place in where:
        typer.echo(f"{place.domain.name}: {len(place.domain):,} images ({place.what})")
    typer.echo(
        f"{passes:,} forward passes. Certified accuracy is of all images; r is {series[0].norm}, {series[0].units}."
    )
    typer.echo(f"\nguarantee  {series[0].guarantee}")
    others = list(
        dict.fromkeys(f"{one.noise} at alpha {one.alpha:g}" for one in series if one.heading != series[0].heading)
    )
    if others:
        typer.echo(f"           Likewise for {', '.join(others)}.")
    typer.echo(f"\n{TOGETHER}")
    kind = "intervals of a bootstrap over groups" if series[0].grouped else "Clopper-Pearson intervals over images"
    typer.echo(
        f"Small figures are 95 % {kind}, for this noise; the upper limit does not bound what more votes would certify."
    )
