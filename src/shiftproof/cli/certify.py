"""`shiftproof certify`."""

from __future__ import annotations

from typing import Any

import typer

from shiftproof.cli import options as o
from shiftproof.cli.certifiers import make_certifiers
from shiftproof.cli.junit import write_junit
from shiftproof.cli.measure import compute_of, finish, measure, study_of_one_model
from shiftproof.cli.show import outcomes_now
from shiftproof.cli.show_certified import show_certified, show_claimed, to_json

__all__ = ["command"]


def command(
    data: o.Data,
    model: o.TrainedModel,
    architecture: o.Architecture = None,
    domain: o.MeasuredDomains = None,
    certifier: o.Certifier = None,
    noise: o.Noise = None,
    sigma: o.Sigma = None,
    n: o.N = None,
    n0: o.N0 = None,
    alpha: o.Alphas = None,
    radii: o.Radii = None,
    stop: o.Stop = None,
    skip_wrong: o.SkipWrong = None,
    runner_up: o.RunnerUp = None,
    calibration: o.Calibration = None,
    precision: o.Precision = "f32",
    backend: o.Backend = "torch",
    limit: o.Limit = None,
    sample_seed: o.SampleSeed = 0,
    split: o.Split = None,
    require: o.Require = None,
    junit: o.Junit = None,
    budget: o.Budget = None,
    estimate: o.Estimate = False,
    seed: o.NoiseSeed = None,
    out: o.Out = None,
    set_: o.SetOfCertify = None,
    workers: o.Workers = None,
    device: o.Device = "auto",
    cluster: o.Cluster = None,
    verbose: o.Verbose = False,
    no_images: o.NoImages = False,
    json: o.AsJson = False,
) -> None:
    """Certify a model's predictions on each domain; the same command continues where it was stopped.

    Writes a run: votes and radii (evidence/), a report, tables, pictures, and logs that other tools read (tsv).
    """
    from shiftproof.certification import Radii
    from shiftproof.certification.usual import usual_noise
    from shiftproof.domains.registry import kind_named
    from shiftproof.probes.certify import Certify
    from shiftproof.runs.sources import ModelSource

    compute = compute_of(workers, device, cluster, precision, backend)
    shown = () if radii is None else Radii(o.numbers_of(radii)).radii
    alphas = [] if alpha is None else list(o.numbers_of(alpha))
    options = o.options_of_set(o.with_architecture(set_, architecture), o.CERTIFY_KINDS)
    told = {"noise": noise, "sigma": sigma, "n": n, "n0": n0, "alpha": alphas[0] if alphas else None}
    told |= {"stop": _stop(stop, radii), "skip_wrong": skip_wrong, "runner_up": runner_up}
    named, given = certifier or "randomized-smoothing", {key: value for key, value in told.items() if value is not None}
    made = make_certifiers(named, given, options, usual_noise(kind_named(data), ModelSource(model).card))
    # what shares noise is one probe; others have one each
    pieces = [made] if named == "randomized-smoothing" else [[one] for one in made]
    running: dict[str, Any] = {"precision": precision, "backend": backend, "alphas": tuple(alphas[1:])}
    probes = [Certify(tuple(piece), **running) for piece in pieces]
    _check_calibration(calibration, named)
    asked: dict[str, Any] = {"limit": limit, "sample_seed": sample_seed, "split": split, "seed": seed, "budget": budget}
    asked |= {"domain": domain, "calibration": o.names_of(calibration)}
    study = study_of_one_model("certify", "Certificates of", data, model, options, probes, **asked)
    asked_of_run: dict[str, Any] = {"require": require, "estimate": estimate, "compute": compute, "junit": junit}
    run = measure(study, out, **asked_of_run, json=json, radii=shown, images=not no_images)
    if run is None:
        return
    if all(one.fact("unsound") for one in run.evidence.where(probe="certify")):
        show_claimed(run, shown, json)
        write_junit(junit, run.junit(outcomes_now(run, require)))
        raise typer.Exit(o.EXIT_FAILED)
    if json:
        to_json(run, require)
    else:
        show_certified(run, require, verbose)
    finish(run, require, junit=junit, images=not no_images)


def _check_calibration(names: str | None, certifier: str) -> None:
    from shiftproof.certification import CERTIFIERS
    from shiftproof.errors import UsageError

    if names is not None and "calibration" not in CERTIFIERS[certifier].options:
        raise UsageError(f"{certifier} does not take --calibration")


def _stop(stop: str | None, radii: str | None) -> str | None:
    from shiftproof.errors import UsageError

    if stop != "radii":
        return stop
    if radii is None:
        raise UsageError("--stop radii needs the radii that are to be decided, such as --radii 0,0.25,0.5")
    return f"radii:{radii}"
