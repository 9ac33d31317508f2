"""The audit of a model: clean, attacked, corrupted and certified on the same samples, per domain, in one report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from shiftproof.attacks.attack import as_victim, check_eps, check_victim
from shiftproof.attacks.validity import validity_findings
from shiftproof.certification import Certifier
from shiftproof.certification.representations import linear_parts
from shiftproof.domains import Domain, Domains, validate
from shiftproof.domains.splits import stratified
from shiftproof.errors import CheckFailed, DataError, ModelError, ShiftproofError, UsageError
from shiftproof.execution import Mode, check_writable, only_one, read_json
from shiftproof.models.files import fingerprint
from shiftproof.perturbations.deformation import Ball, as_ball
from shiftproof.perturbations.threat import Threat
from shiftproof.probes import PROBES
from shiftproof.probes.corrupt import as_corruptions
from shiftproof.probes.probe import check_probe
from shiftproof.studies.certifying import recorded
from shiftproof.studies.data import StudyData, data_findings
from shiftproof.studies.files import validated
from shiftproof.studies.jobs import kept_copy, model_file
from shiftproof.studies.plan import DEFAULT, Plan, Wanted, fitting_plan, parse_budget
from shiftproof.studies.resolved import digest, resolved
from shiftproof.studies.run import Run
from shiftproof.studies.runner import measure_models, new_record, start_or_continue
from shiftproof.studies.schema import GIVEN, Study
from shiftproof.studies.seen import seen_target
from shiftproof.types import Finding

__all__ = ["LIMIT", "SIGMA", "THREATS", "Planned", "Subject", "audit", "plan_audit", "usual_certifiers"]

LIMIT = 500
"""Samples of a domain that are measured, unless told."""
SIGMA = 0.25
"""Of the noise that smooths, for a model whose record names none."""
THREATS = ("l2:0.5",)
EXAMINED = 32
"""Samples on which the model is examined before it is attacked."""
_TIGHT = 1.01
"""A constant up to which margins in a representation say something."""


@dataclass(frozen=True, eq=False)
class Subject:
    """What is audited: a model, what is known of it, and the domains that it was trained on and is shipped to.

    `data` and `spec` are how data and model are named, so that `verify` finds them again.
    """

    model: nn.Module
    sources: Domains
    target: Domain | None
    name: str = "model"
    card: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=lambda: {"name": GIVEN})
    spec: Mapping[str, Any] = field(default_factory=lambda: {"name": GIVEN})


def audit(
    model: nn.Module,
    sources: Domains | Domain,
    target: Domain | None = None,
    *,
    threats: Sequence[str | Ball] = THREATS,
    certifiers: Sequence[Certifier] | None = None,
    corruptions: str | Sequence[str] = "standard",
    severities: Sequence[int] | None = None,
    also: Sequence[str] = (),
    limit: int | None = LIMIT,
    budget: str | None = None,
    strict: bool = False,
    out: Path | str | None = None,
    name: str = "model",
    seed: int = 0,
    workers: int = 1,
    progress: Mode = "auto",
) -> Run:
    """Measure a model of yours on its training domains and on the one it is shipped to: clean, attacked, corrupted and
    certified, on the same samples.

    Sources are measured on their held-out part. At most `limit` samples of a domain are taken, every class in its
    share; `budget` ("20m") says how much time there is, and decides how hard every question is asked. Without
    `certifiers`, the majority vote under Gaussian noise is certified. `also` names further probes, such as "search" and
    "input-robustness". The same call continues one that was stopped.

    >>> run = audit(model, sources, target, budget="5m")  # doctest: +SKIP
    >>> run.verdict, run.findings, run.report("report.html")  # doctest: +SKIP
    """
    known = sources if isinstance(sources, Domains) else Domains(sources.name, [sources])
    subject = Subject(model.eval(), known, target, name)
    chosen = usual_certifiers(subject) if certifiers is None else [recorded(one) for one in certifiers]
    wanted = Wanted(
        tuple(as_ball(threat) for threat in threats),
        tuple(chosen),
        as_corruptions(corruptions) if corruptions else (),
        None if severities is None else tuple(severities),
        also=tuple(also),
    )
    planned = plan_audit(
        subject, wanted, limit, budget, strict=strict, out=out, seed=seed, workers=workers, progress=progress
    )
    check_writable(planned.folder)
    return planned.run(workers, progress)


@dataclass(frozen=True, eq=False)
class Planned:
    """An audit before anything is measured: where it goes, what it measures, what was noticed on the way.

    `seconds` is what it will take, from a trial of a moment; None if it was begun before.
    """

    subject: Subject
    folder: Path
    study: Study
    data: StudyData
    threats: tuple[Ball, ...]
    asked: dict[str, Any]
    noticed: list[Finding]
    seconds: float | None

    def run(self, workers: int = 1, progress: Mode = "auto") -> Run:
        """Measure what is not measured."""
        subject, study, folder = self.subject, self.study, self.folder
        with only_one(folder):
            record = new_record(study, resolved(study), self.data)
            record = start_or_continue(
                folder, {**record, "asked": self.asked, "noticed": [vars(one) for one in self.noticed]}
            )
            found = [Finding(**one) for one in record["noticed"]]
            found += _examined(subject, self.data, self.threats, study.seed)
            card = kept_copy(subject.model, dict(subject.card), subject.sources, model_file(folder, subject.name))
            models = {subject.name: (subject.model, card)}
            return measure_models(folder, study, record, self.data, models, found, workers, progress)


def plan_audit(
    subject: Subject,
    wanted: Wanted,
    limit: int | None,
    budget: str | None,
    *,
    strict: bool = False,
    out: Path | str | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Mode = "auto",
) -> Planned:
    """Look at data and model, and decide how hard every question is asked; nothing is written."""
    available = None if budget is None else parse_budget(budget)
    for threat in wanted.threats:
        check_size(threat, subject.sources.shape)
    data, noticed = _measured(subject, limit, progress)
    for domain in data.measured:
        check_victim(as_victim(subject.model, None, 1, 1, seed), domain)
    noticed += [*_oddities(data), *data_findings(data)]
    noticed += seen_target(subject.name, dict(subject.card), str(subject.data["name"]), subject.target)
    _refuse_if_strict(noticed, strict)
    asked = _asked(subject, wanted, limit, budget, seed)
    folder = Path(out) if out else Path("runs") / f"audit-{digest(asked)}"
    study, seconds = _begun(folder, asked), None
    if study is None:
        able, unable = _applicable(subject, wanted, data)
        plan = fitting_plan(able, subject.model, data.measured, limit, available, workers)
        study, seconds = _study(subject, plan, seed, budget), plan.seconds
        noticed += unable
    data = replace(data, chosen=[stratified(domain, study.limit) for domain in data.measured])
    return Planned(subject, folder, study, data, wanted.threats, asked, noticed, seconds)


def usual_certifiers(subject: Subject) -> list[dict[str, Any]]:
    """The vote under the Gaussian noise that the model knows, and margins where the encoder has a small constant."""
    sigma = (subject.card.get("objective") or {}).get("sigma") or SIGMA
    found: list[dict[str, Any]] = [{"name": "randomized-smoothing", "noise": {"name": "gaussian", "sigma": sigma}}]
    try:
        parts = linear_parts(subject.model, subject.sources.shape, "l2", needs_split=True)
    except ShiftproofError:
        return found
    return [*found, {"name": "latent-margin"}] if parts.constant <= _TIGHT else found


def check_size(threat: Ball, shape: tuple[int, ...]) -> None:
    """Refuse a size that was meant for pixels from 0 to 255, or that turns any image into any other."""
    if not isinstance(threat, Threat):
        return
    check_eps(threat)
    diameter = float(threat.size(torch.ones(1, *shape)))
    if threat.eps >= diameter:
        guess = f"did you mean {threat.norm}:{threat.eps / 255:.3g}, in pixel values from 0 to 1?"
        message = f"any image is within {threat.norm} {diameter:.3g} of any other"
        raise UsageError(f"eps is {threat.eps:g}, but {message}; {guess}")


def _asked(subject: Subject, wanted: Wanted, limit: int | None, budget: str | None, seed: int) -> dict[str, Any]:
    """All that was asked for, in a form that fits into JSON: the name of the folder, and what a resume must match."""
    places = [*subject.sources, *([] if subject.target is None else [subject.target])]
    return {
        "model": fingerprint(subject.model),
        "name": subject.name,
        "data": {domain.name: domain.fingerprint for domain in places},
        "target": None if subject.target is None else subject.target.name,
        "threats": [threat.spec for threat in wanted.threats],
        "certifiers": list(wanted.certifiers),
        "corruptions": list(wanted.corruptions),
        "severities": None if wanted.severities is None else list(wanted.severities),
        "constants": wanted.constants,
        "also": list(wanted.also),
        "limit": limit,
        "budget": budget,
        "seed": seed,
    }


def _begun(folder: Path, asked: dict[str, Any]) -> Study | None:
    """The study of an audit that was begun: a budget was resolved then, and is not asked again."""
    path = folder / "run.json"
    if not path.is_file():
        return None
    before = read_json(path, DataError)
    known = before.get("asked") or {}
    changed = sorted(key for key in {*known, *asked} if known.get(key) != asked.get(key))
    if changed:
        raise UsageError(f"{folder} holds an audit with another {', '.join(changed)}; choose another --out")
    return validated(before["study"], str(path))


def _measured(subject: Subject, limit: int | None, progress: Mode) -> tuple[StudyData, list[Finding]]:
    """The samples that are measured, those that can be read among them, and what is odd about them."""
    whole = StudyData(subject.sources, subject.target, limit)
    looked = validate(Domains("measured", whole.measured), progress)
    chosen = []
    for domain in whole.measured:
        bad = set(looked.unreadable.get(domain.name, ()))
        part = domain.subset(np.flatnonzero([str(one) not in bad for one in domain.ids])) if bad else domain
        if not len(part):
            raise DataError(f"none of the {len(domain)} samples of {domain.name!r} can be read")
        chosen.append(part)
    found = [replace(one, level="warn") for one in looked.findings if one.level != "pass" and one.code != "empty-part"]
    return replace(whole, chosen=chosen), found


def _oddities(data: StudyData) -> Iterator[Finding]:
    for domain in data.measured:
        present = [name for name, count in domain.class_counts.items() if count]
        if len(present) == 1:
            message = f"all measured samples of {domain.name} are {present[0]!r}: nothing there tells classes apart"
            yield Finding("warn", "one-class", message)


def _refuse_if_strict(findings: Sequence[Finding], strict: bool) -> None:
    if strict and (odd := [one for one in findings if one.level != "pass"]):
        more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        raise CheckFailed(f"{odd[0].message}{more}; without --strict the audit would go on and say so")


def _applicable(subject: Subject, wanted: Wanted, data: StudyData) -> tuple[Wanted, list[Finding]]:
    """Without certificates that do not apply to the model, and why they do not; other probes must apply."""
    able, found = [], []
    for probe in replace(wanted, certifiers=()).probes(DEFAULT):
        options = {key: value for key, value in probe.items() if key != "name"}
        check_probe(PROBES.create(probe["name"], options), subject.model, data.measured[-1], data.training)
    for one in wanted.certifiers:
        try:
            check_probe(PROBES.create("certify", {"certifier": one}), subject.model, data.measured[-1], data.training)
            able.append(one)
        except ModelError as error:
            found.append(Finding("warn", "not-certified", f"{one['name']}: nothing is certified: {error}"))
    return replace(wanted, certifiers=tuple(able)), found


def _study(subject: Subject, plan: Plan, seed: int, budget: str | None) -> Study:
    where = "no domain was left out" if subject.target is None else f"{subject.target.name} is where it is shipped to"
    time = "" if budget is None else f" Planned for {budget}."
    document = {
        "name": "audit",
        "title": f"Audit of {subject.name}",
        "about": f"The same samples of every domain as they are, attacked, corrupted and certified; {where}.{time}",
        "data": dict(subject.data),
        "source": list(subject.sources.names),
        "target": None if subject.target is None else subject.target.name,
        "seed": seed,
        "limit": plan.limit,
        "models": {subject.name: {"model": dict(subject.spec), "train": False}},
        "probes": plan.probes,
    }
    return validated(document, "the audit")


def _examined(subject: Subject, data: StudyData, threats: Sequence[Ball], seed: int) -> Iterator[Finding]:
    """Whether attacks on this model can be trusted, on a few samples of all domains."""
    each = max(1, EXAMINED // len(data.measured))
    few = [domain.subset(np.arange(len(domain))[:: max(1, len(domain) // each)][:each]) for domain in data.measured]
    inputs, labels = (torch.cat(parts) for parts in zip(*(one.tensors() for one in few), strict=True))
    ids = [f"{one.name}/{sample}" for one in few for sample in one.ids]
    for threat in threats:
        if isinstance(threat, Threat):
            yield from validity_findings(subject.model, inputs, labels, ids, threat, seed=seed)
            return
