"""The audit of a model: clean, attacked, corrupted and certified on the same samples, per domain, in one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.attacks.attack import check_size
from shiftproof.attacks.victim import frozen
from shiftproof.certification import Certifier
from shiftproof.certification.bounds.representations import linear_parts
from shiftproof.certification.certifiers.latent_margin import LatentMargin
from shiftproof.certification.certifiers.randomized_smoothing import RandomizedSmoothing
from shiftproof.certification.usual import trained_noises
from shiftproof.domains import Domain, Domains
from shiftproof.errors import ShiftproofError, UsageError
from shiftproof.execution import (
    HERE,
    Backend,
    Compute,
    Mode,
    Precision,
    as_list,
    as_path,
    check_progress,
    check_text,
    ready,
)
from shiftproof.models.outputs import check_copyable
from shiftproof.models.text import text_encoder_of
from shiftproof.perturbations.balls import as_ball
from shiftproof.perturbations.threat import Ball
from shiftproof.probes.corrupt import as_corruptions, as_severities
from shiftproof.report.requirements import Requirement
from shiftproof.runs import efforts
from shiftproof.runs.efforts import EFFORTS, Questions, applicable
from shiftproof.runs.engine import run_study
from shiftproof.runs.limits import as_limit
from shiftproof.runs.names import check_targets
from shiftproof.runs.plan import Planned, plan_run
from shiftproof.runs.prepare import Prepared, prepare_study
from shiftproof.runs.run import Run
from shiftproof.runs.sources import ModelSource
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import validated

__all__ = [
    "LIMIT",
    "audit",
    "audit_study",
    "plan_audit",
    "prepare_audit",
    "questions_of",
    "usual_certifiers",
    "usual_threats",
]

LIMIT = 500
"""Samples of a domain that are measured, unless told."""
_ASKED = "by every question that was asked and applies"
_SCORED = "by how well predicted numbers follow the true ones"
_TIGHT = 1.01
"""A constant up to which margins in a representation say something."""


def audit(
    model: nn.Module,
    sources: Domains | Domain,
    target: Domain | Domains | Sequence[Domain] | None = None,
    *,
    threats: str | Sequence[str | Ball] | None = None,
    certifiers: Sequence[Certifier] | None = None,
    corruptions: str | Sequence[str] = "standard",
    severities: Sequence[int] | None = None,
    also: str | Sequence[str] = (),
    limit: int | Mapping[str, int] | None = LIMIT,
    budget: str | None = None,
    require: Sequence[str] = (),
    strict: bool = False,
    images: bool = True,
    out: Path | str | None = None,
    name: str = "model",
    seed: int | None = None,
    sample_seed: int = 0,
    split: str | None = None,
    workers: int = 1,
    device: str = "auto",
    precision: Precision = "f32",
    backend: Backend = "torch",
    cluster: str | None = None,
    progress: Mode = "auto",
) -> Run:
    """Measure a model of yours on its training domains and where it is shipped to: clean, attacked, corrupted and
    certified, on the same samples.

    A model that `sp.load_model` read from a file with its record, or that `sp.train` has trained, is measured on the
    samples that it was not trained on, as on the command line. The record holds for these weights and for copies of
    the model; of one whose weights were changed since, that is wrapped, or that comes from elsewhere, nobody knows what
    it has seen: all samples are measured and marked, unless `split` says which. Domains are known by their content, or
    by the names of a data set that `sp.load_domains` gave. The same call continues an audit that was stopped.

    Args:
        target: The domain that it is shipped to, or several; each has its own gap in the report.
        threats: Attacks, each a norm and a size ("l2:0.5"), a deformation ("rotation:0.2") or word edits ("edits:3");
            without any, "l2:0.5", or of text "edits:3" and, where the model has an encoder, "embedding-l2:1.0".
        certifiers: Without any, the majority vote is certified, under Gaussian noise or of text under word deletion,
            and margins where they apply.
        corruptions: "standard", "all", "none", a group, or names.
        also: Further probes, such as "search" and "input-robustness".
        limit: Samples of a domain, at most, at random by `sample_seed`; {"balanced": 500} takes the same number from
            every class.
        budget: How much time there is ("20m"); decides how hard every question is asked.
        require: Texts such as "clean>=0.8", judged in `run.outcomes` and in the report.
        strict: Whether anything odd about the data is an error.
        images: Whether the report may show samples; if not, it has no picture, no text, and ids are keyed hashes.
        seed: Keys the noise; without it one is drawn for the run and kept in its record.

    >>> run = audit(model, sources, target, budget="5m")  # doctest: +SKIP
    >>> run.verdict, run.findings, run.report("report.html")  # doctest: +SKIP
    """
    targets = () if target is None else (target,) if isinstance(target, Domain) else target
    several = isinstance(targets, Domains | list | tuple) and all(isinstance(one, Domain) for one in targets)
    if not isinstance(sources, Domains | Domain) or not several:
        raise UsageError("audit takes domains: sources, target = sp.load_domains(...).leave_out('sketch')")
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is {type(model).__name__}; it should be a torch.nn.Module")
    compute = ready(Compute(device, precision, backend, workers, cluster))
    _check_arguments(limit, certifiers, name, progress, out)
    requirements = Requirement.read(require)
    known = sources if isinstance(sources, Domains) else Domains(sources.name, [sources])
    unseen = [one.name for one in targets]
    check_targets(unseen, known.names)
    places = Domains(known.name, [*known, *targets])
    options = {"limit": limit, "budget": budget, "seed": seed, "sample_seed": sample_seed, "split": split}
    study = audit_study(places, ModelSource.make(model), name, known.names, unseen, options)
    # in eval mode for this, and as it was after it
    with frozen(model):
        prepared = prepare_audit(study, progress)
        chosen = usual_certifiers(prepared) if certifiers is None else list(certifiers)
        asked = [(one, frozenset({"n", "stop"}) if certifiers is not None else frozenset[str]()) for one in chosen]
        asked_threats = usual_threats(prepared) if threats is None else threats
        questions = questions_of(asked_threats, asked, corruptions, severities, also)
        planned = plan_audit(
            prepared, questions, out, require=requirements, strict=strict, compute=compute, progress=progress
        )
        running: dict[str, Any] = {"workers": workers, "device": device, "cluster": cluster, "progress": progress}
        return run_study(planned, **running, require=requirements, images=images)


def _check_arguments(limit: object, certifiers: Any, name: object, progress: object, out: object) -> None:
    """Refuse what is not of the kind that it should be, before anything is loaded."""
    if limit is not None:
        as_limit(limit, "the limit")
    check_text("name", name, "model")
    check_progress(progress)
    if out is not None:
        as_path("out", out)
    told = () if certifiers is None else as_list("certifiers", certifiers, "[sp.certifiers.LatentMargin()]")
    if wrong := [one for one in told if not isinstance(one, Certifier)]:
        raise UsageError(f"the certifier is {wrong[0]!r}; it should be an object such as sp.certifiers.LatentMargin()")


def audit_study(
    data: Any,
    model: ModelSource,
    name: str,
    sources: Sequence[str] | None,
    targets: Sequence[str],
    options: dict[str, Any],
) -> Study:
    """A study of one model as it is; which probes ask is decided when model and data are loaded."""
    shipped = f"{', '.join(targets)} {'are' if len(targets) > 1 else 'is'} where it is shipped to"
    where = shipped if targets else "no target was named"
    planned = "" if options.get("budget") is None else f" Planned for {options['budget']}."
    document = {
        "name": "audit",
        "title": f"Audit of {name}",
        "about": f"The same samples of every domain, {_ASKED}; {where}.{planned}",
        "data": data,
        "source": sources,
        "target": tuple(targets) or None,
        "models": {name: {"model": model, "train": False}},
        **{key: value for key, value in options.items() if value is not None},
    }
    return validated({key: value for key, value in document.items() if value is not None}, "the audit")


def prepare_audit(study: Study, progress: Mode = "off") -> Prepared:
    """Load data and model; refuse a model that can't be copied, which no certificate could speak of."""
    prepared = prepare_study(study, progress)
    for model in prepared.models.values():
        check_copyable(model)
    if prepared.data.sources.is_regression:
        return replace(prepared, study=prepared.study.changed(about=study.about.replace(_ASKED, _SCORED)))
    return prepared


def usual_certifiers(prepared: Prepared) -> list[Certifier]:
    """The vote under the noise that the model knows from its training, and margins where the encoder has a small
    constant. The noise is Gaussian, and of text word deletion; one that was trained under noise on its embeddings is
    certified there, too.
    """
    ((name, model),) = prepared.models.items()
    kind = prepared.data.sources.kind
    votes: list[Certifier] = [RandomizedSmoothing(one) for one in trained_noises(kind, prepared.cards[name])]
    if kind == "text":
        return votes
    try:
        parts = linear_parts(model, prepared.data.sources.shape, "l2", needs_split=True)
    except ShiftproofError:
        return votes
    return [*votes, LatentMargin()] if parts.constant <= _TIGHT else votes


def usual_threats(prepared: Prepared) -> tuple[str, ...]:
    """A change of pixels; of texts, edits of words, and beside them a change of embeddings where the model has any."""
    (model,) = prepared.models.values()
    if prepared.data.sources.kind != "text":
        return ("l2:0.5",)
    return ("edits:3",) if text_encoder_of(model) is None else ("edits:3", "embedding-l2:1.0")


def questions_of(
    threats: str | Sequence[str | Ball],
    certifiers: Sequence[tuple[Certifier, frozenset[str]]],
    corruptions: str | Sequence[str],
    severities: Sequence[int] | None,
    also: str | Sequence[str],
) -> Questions:
    """What is asked for, each thing once; texts may hold several with commas, and no corruptions are "none"."""
    balls = dict.fromkeys(as_ball(one) for one in _several("threats", threats, "['l2:0.5']"))
    kinds = () if corruptions == "none" or not corruptions else as_corruptions(corruptions)
    told = None if severities is None else as_severities(severities)
    probes = dict.fromkeys(map(str, _several("also", also, "['search']")))
    return Questions(tuple(balls), tuple(certifiers), kinds, told, tuple(probes))


def _several(name: str, value: Any, example: str) -> list[Any]:
    """A text holds several with commas."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else as_list(name, value, example)


def plan_audit(
    prepared: Prepared,
    questions: Questions,
    out: Path | str | None = None,
    *,
    require: Sequence[Requirement] = (),
    strict: bool = False,
    compute: Compute = HERE,
    progress: Mode = "auto",
) -> Planned:
    """Decide how hard every question is asked: the usual effort, or the greatest that fits into the study's budget."""
    for threat in questions.threats:
        check_size(threat, prepared.data.sources.shape)
    questions, unable = applicable(questions, prepared.models, prepared.data_for(questions.probes(efforts.DEFAULT)))
    if prepared.study.budget is not None:
        # a budget is spent on what is asked: votes stop where these radii are decided
        radii = tuple(one.size for one in require if one.metric == "certified" and one.size)
        questions = replace(questions, radii=radii)
    questions = replace(questions, precision=compute.precision, backend=compute.backend)
    prepared = replace(prepared, findings=(*prepared.findings, *unable))
    asked = prepared.with_probes(questions.probes(efforts.DEFAULT), [questions.probes(one) for one in EFFORTS])
    return plan_run(asked, out, compute=compute, progress=progress, require=require, strict=strict, trial=True)
