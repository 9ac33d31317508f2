"""`shiftproof audit`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from shiftproof.cli import options as o
from shiftproof.cli.junit import check_junit, write_junit
from shiftproof.cli.measure import compute_of, finish, measure
from shiftproof.cli.show_audit import Took, show_audit_json, show_plan
from shiftproof.cli.summary import show_summary

if TYPE_CHECKING:
    from shiftproof.certification import Certifier
    from shiftproof.runs.prepare import Prepared

__all__ = ["command"]


def command(
    data: o.Data,
    model: o.TrainedModel,
    architecture: o.Architecture = None,
    target: o.Target = None,
    source: o.Source = None,
    threat: o.Threats = None,
    noise: o.Noise = None,
    sigma: o.Sigma = None,
    certifier: o.Certifier = None,
    n: o.N = None,
    alpha: o.Alpha = None,
    corruptions: o.Corruptions = "standard",
    severities: o.Severities = None,
    also: o.FurtherProbes = None,
    limit: o.Limit = 500,
    sample_seed: o.SampleSeed = 0,
    split: o.Split = None,
    budget: o.Budget = None,
    require: o.Require = None,
    junit: o.Junit = None,
    strict: o.Strict = False,
    estimate: o.Estimate = False,
    seed: o.NoiseSeed = None,
    out: o.Out = None,
    set_: o.SetOfCertify = None,
    workers: o.Workers = None,
    device: o.Device = "auto",
    precision: o.Precision = "f32",
    backend: o.Backend = "torch",
    cluster: o.Cluster = None,
    verbose: o.Verbose = False,
    no_images: o.NoImages = False,
    json: o.AsJson = False,
) -> None:
    """Audit a model of yours on your domains: clean, attacked, corrupted and certified, on the same samples.

    The report says what is right, what survives and what is guaranteed, where it was trained and where it is shipped.

    The same command continues where it was stopped; a budget is resolved once. Sizes of rotations are in radians, the
    sigma of rotation noise in half turns. Texts are attacked by word edits and in their embeddings, and certified under
    word deletion. Exit 2 if a check of the model or a --require fails.
    """
    from shiftproof.errors import CheckFailed
    from shiftproof.probes.corrupt import Corrupt
    from shiftproof.report.junit import Case, junit_xml
    from shiftproof.report.requirements import Requirement
    from shiftproof.runs.audit import audit_study, plan_audit, prepare_audit, questions_of, usual_threats
    from shiftproof.runs.sources import ModelSource

    began = time.monotonic()
    check_junit(junit)
    compute = compute_of(workers, device, cluster, precision, backend)
    options = o.options_of_set(o.with_architecture(set_, architecture), o.CERTIFY_KINDS)
    requirements = [Requirement.parse(text) for text in require or []]
    corrupt = Corrupt("standard" if corruptions == "none" else corruptions, severities or "1,2,3,4,5")  # type: ignore[arg-type]
    audited = ModelSource(o.absolute(model), options["model"])
    audited.check_trained("audit a trained one: --model file:PATH")
    place = {"name": o.absolute(data), **options["data"]}
    asked = {"limit": limit, "budget": budget, "seed": seed, "sample_seed": sample_seed, "split": split}
    study = audit_study(place, audited, audited.title, o.names_of(source), o.names_of(target) or (), asked)
    prepared = prepare_audit(study, "lines")
    told = {"noise": noise, "sigma": sigma, "n": n, "alpha": alpha}
    certifiers = _certifiers(prepared, certifier, {k: v for k, v in told.items() if v is not None}, options)
    questions = questions_of(
        threat or usual_threats(prepared),
        certifiers,
        "none" if corruptions == "none" else corrupt.corruptions,
        None if severities is None else corrupt.severities,
        also or (),
    )
    running: dict[str, Any] = {"compute": compute, "progress": "lines", "require": requirements}
    try:
        planned = plan_audit(prepared, questions, out, strict=strict, **running)
    except CheckFailed as error:
        write_junit(junit, junit_xml(study.name, [Case("findings", "strict", "fail", str(error))]))
        raise
    show_plan(planned, compute, json, estimate, verbose)
    if estimate:
        return
    planning = time.monotonic() - began
    run = measure(planned, require=require, estimate=False, compute=compute, json=json, images=not no_images)
    assert run is not None
    took = Took(planning, time.monotonic() - began - planning, planned.plan, budget)
    if json:
        show_audit_json(run, require, took)
    else:
        show_summary(run, require, verbose, [("time", took.overrun)] if took.overrun else [])
    finish(run, require, failed=bool(run.broken), junit=junit, images=not no_images)


def _certifiers(
    prepared: Prepared, certifier: str | None, told: dict[str, Any], options: dict[str, dict[str, Any]]
) -> list[tuple[Certifier, frozenset[str]]]:
    """As told, or what fits the model; votes, and when they stop, are left to the effort unless told."""
    from shiftproof.cli.certifiers import make_certifiers
    from shiftproof.runs.audit import usual_certifiers

    usual = usual_certifiers(prepared)
    made = make_certifiers(certifier or "randomized-smoothing", told, options, usual[0].noise)
    named = frozenset({*told, *options["certifier"]})
    voted = {one.noise for one in made if one.noise is not None}
    others = [one for one in usual[1:] if one.noise not in voted] if certifier is None else []
    return [(one, named) for one in made] + [(one, frozenset[str]()) for one in others]
