"""`shiftproof certify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shiftproof.cli.options import AsJson, Data, Seed, Set, Workers, show_json, show_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shiftproof.certification.smoothing import RandomizedSmoothing
    from shiftproof.report.certified import Series
    from shiftproof.studies.certifying import Certified, Place

__all__ = ["command"]


def command(
    data: Data,
    model: Annotated[str, typer.Option("--model", help="file:PATH of a trained model, or python:PKG.MOD:FN.")],
    domain: Annotated[str | None, typer.Option("--domain", help="Domains to certify: a,b.", show_default="all")] = None,
    certifier: Annotated[
        str, typer.Option("--certifier", help="See: shiftproof ls certifiers")
    ] = "randomized-smoothing",
    noise: Annotated[str, typer.Option("--noise", help="gaussian, uniform, rotation, ... See: ls noise")] = "gaussian",
    sigma: Annotated[
        str, typer.Option("--sigma", help="Scale of the noise, pixels being in [0, 1]; several with commas.")
    ] = "0.25",
    n: Annotated[int, typer.Option("--n", help="Votes a sample, at most.")] = 10_000,
    n0: Annotated[int, typer.Option("--n0", help="Votes that choose the class.")] = 100,
    alpha: Annotated[float, typer.Option("--alpha", help="Probability that a certificate is wrong, at most.")] = 0.001,
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
    set_: Set = None,
    workers: Workers = None,
    json: AsJson = False,
) -> None:
    """Certify a model's predictions on each domain; the same command continues where it was stopped.

    Writes certificates with their votes (Parquet), logs that other tools read (tsv), a table and a picture.
    """
    import os

    from shiftproof.domains import load_domains
    from shiftproof.execution import check_writable, only_one
    from shiftproof.models import load_model
    from shiftproof.studies.certifying import certify_to_folder, places
    from shiftproof.studies.jobs import digest

    settings = _settings(certifier, noise, sigma, n, n0, alpha, radii, stop, skip_wrong, runner_up)
    data_options, model_options = _options(set_ or [])
    domains = load_domains(data, **data_options)
    loaded = load_model(model, domains, seed=seed, **model_options)
    names = None if domain is None else [name.strip() for name in domain.split(",")]
    where = places(domains, names, model, limit)
    count = workers or os.cpu_count() or 1
    if estimate:
        _estimate(loaded, where, settings, count, precision, backend, json)
        return
    asked = {"model": model, "data": data, "options": [data_options, model_options], "domain": names, "limit": limit}
    asked |= {"settings": [repr(one) for one in settings], "seed": seed, "compute": [precision, backend]}
    folder = out or Path("runs") / f"certify-{digest(asked)}"
    check_writable(folder)
    with only_one(folder):
        results = certify_to_folder(
            loaded,
            where,
            settings,
            folder,
            seed=seed,
            workers=count,
            precision=precision,  # type: ignore[arg-type]
            backend=backend,  # type: ignore[arg-type]
            progress="lines",
        )
        series, shown = _write(results, folder, _numbers(radii) if radii else None)
    if json:
        show_json(_summary(results, series, shown, folder))
        return
    _show(where, results, series, shown)
    typer.echo(f"\nwritten to {folder}: certificates/, logs/, tables/certified.csv, figures/certified.svg")


def _numbers(text: str) -> tuple[float, ...]:
    from shiftproof.errors import UsageError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"{text!r} should be a number, or several with commas, such as 0.25,0.5") from error


def _settings(
    certifier: str,
    noise: str,
    sigma: str,
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
    from shiftproof.perturbations.noise import as_noise

    if stop == "radii":
        if radii is None:
            raise UsageError("--stop radii needs the radii that are to be decided, such as --radii 0,0.25,0.5")
        stop = f"radii:{radii}"
    chosen = [as_noise(f"{noise}:{value}") for value in sigma.split(",")]
    options = {"n": n, "n0": n0, "alpha": alpha, "stop": stop, "skip_wrong": skip_wrong, "runner_up": runner_up}
    return [CERTIFIERS.create(certifier, {"noise": one, **options}) for one in chosen]  # type: ignore[misc]


def _options(changes: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """--set data.size=64 and --set model.architecture=cnn."""
    from shiftproof.errors import UnknownName
    from shiftproof.studies.files import apply_override

    document: dict[str, Any] = {}
    for change in changes:
        apply_override(document, change)
    for key in document:
        if key not in ("data", "model"):
            raise UnknownName("key of --set", key, ["data", "model"])
    return document.get("data", {}), document.get("model", {})


def _estimate(
    model: Any,
    where: list[Place],
    settings: list[RandomizedSmoothing],
    workers: int,
    precision: Any,
    backend: Any,
    json: bool,
) -> None:
    from shiftproof.certification.certifier import Job, Memory
    from shiftproof.certification.checks import check_classifier
    from shiftproof.certification.estimate import estimate_sampling

    rows, totals = [], {"forward_passes": 0, "seconds": 0.0, "most_forward_passes": 0, "most_seconds": 0.0}
    for place in where:
        classes = check_classifier(model, place.domain)
        job = Job(model, place.domain, classes, 0, Memory(), workers, precision, backend, "off")
        for setting in settings:
            cost = estimate_sampling(job, setting)
            values = (cost.passes, cost.seconds, cost.most_passes, cost.most_seconds)
            totals = {key: totals[key] + value for key, value in zip(totals, values, strict=True)}
            rows.append(
                [
                    place.domain.name,
                    repr(setting.noise),
                    f"{cost.passes:,}",
                    _time(cost.seconds),
                    _time(cost.most_seconds),
                ]
            )
    if json:
        show_json(totals)
        return
    rows.append(["total", "", f"{totals['forward_passes']:,}", _time(totals["seconds"]), _time(totals["most_seconds"])])
    show_table(["domain", "noise", "forward passes", "time", "at most"], rows)
    typer.echo(f"with {workers} workers; measured on this machine just now, on a few samples")


def _time(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def _write(
    results: Sequence[Certified], folder: Path, asked: tuple[float, ...] | None
) -> tuple[list[Series], tuple[float, ...]]:
    from shiftproof.execution import write_atomically
    from shiftproof.report.certified import certified_chart, certified_csv, nice_radii, series_of
    from shiftproof.report.chart import chart_png, chart_svg

    several = len({result.domain for result in results}) > 1
    sigmas = len({repr(result.setting) for result in results}) > 1
    series = []
    for result in results:
        noise = _label(result.setting)
        name = f"{result.domain}, {noise}" if several and sigmas else result.domain if several else noise
        series.append(series_of(name, result.domain, noise, result.certificates, result.labels))
        result.certificates.to_log(folder / "logs" / f"{result.path.stem}.tsv", result.labels)
    shown = asked or nice_radii(series)
    best_of = None if several or len(series) == 1 else "noise"
    chart = certified_chart(series, best_of=best_of)
    write_atomically(folder / "tables" / "certified.csv", certified_csv(series, shown).encode())
    write_atomically(folder / "figures" / "certified.svg", chart_svg(chart).encode())
    write_atomically(folder / "figures" / "certified.png", chart_png(chart))
    return series, shown


def _show(where: list[Place], results: Sequence[Certified], series: list[Series], radii: tuple[float, ...]) -> None:
    from shiftproof.certification import TOGETHER

    header = ["domain", "noise", *(f"r >= {radius:g}" for radius in radii), "mean radius", "abstained"]
    rows = []
    for result, one in zip(results, series, strict=True):
        cells = [f"{e.value:.1%}\n{100 * e.low:.1f} to {100 * e.high:.1f}" for e in map(one.at, radii)]
        mean = f"{one.mean_radius():.4f}{' or more' if one.biased else ''}\n{one.mean_radius('correct'):.4f} if right"
        abstained = "not known" if one.abstained is None else f"{one.abstained:.1%}"
        rows.append([result.domain, one.setting, *cells, mean, abstained])
    show_table(header, rows)
    for place in where:
        typer.echo(f"{place.domain.name}: {len(place.domain):,} images ({place.what})")
    passes = sum(result.certificates.passes for result in results)
    typer.echo(f"{passes:,} forward passes. Certified accuracy is of all images; r is in {series[0].units}.")
    typer.echo(f"\nguarantee  {series[0].guarantee}")
    others = list(dict.fromkeys(one.setting for one in series if one.setting != series[0].setting))
    if others:
        typer.echo(f"           Likewise for {', '.join(others)}.")
    typer.echo(f"\n{TOGETHER}")
    typer.echo(
        "Small figures are 95 % Clopper-Pearson intervals over images, for this noise; the upper limit does not bound "
        "what more votes would certify."
    )


def _label(setting: RandomizedSmoothing) -> str:
    """The noise of a setting, short."""
    from shiftproof.catalogue import plain_options
    from shiftproof.perturbations.noise import NOISES

    values = [
        f"{v:g}" if not isinstance(v, bool) else n for n, v in plain_options(setting.noise).items() if v is not False
    ]
    return " ".join([NOISES.name_of(setting.noise), *values])


def _summary(
    results: Sequence[Certified], series: list[Series], radii: tuple[float, ...], folder: Path
) -> dict[str, Any]:
    """One object; with several domains or sigmas, the first one's figures are at the top and all are in `results`."""

    def of(result: Certified, one: Series) -> dict[str, Any]:
        at = {f"{radius:g}": one.at(radius) for radius in radii}
        certificates = result.certificates
        return {
            "domain": result.domain,
            "noise": one.setting,
            "accuracy": one.at(0.0).value,
            "average_certified_radius": one.mean_radius(),
            "average_certified_radius_correct": one.mean_radius("correct"),
            "biased_low": one.biased,
            "certified_accuracy": {radius: e.value for radius, e in at.items()},
            "interval": {radius: [e.low, e.high] for radius, e in at.items()},
            "abstained": one.abstained,
            "images": len(certificates),
            "n": certificates.samples,
            "alpha": certificates.alpha,
            "norm": certificates.norm,
            "units": certificates.units,
            "precision": certificates.precision,
            "forward_passes": certificates.passes,
            "seconds": certificates.details["seconds"],
            "guarantee": certificates.guarantee,
            "certificates": str(result.path),
        }

    every = [of(result, one) for result, one in zip(results, series, strict=True)]
    return {**every[0], "results": every, "out": str(folder)}
