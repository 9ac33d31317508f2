"""The audit of a model: clean, attacked, corrupted and certified on the same samples, per domain, in one report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from shiftproof.attacks.attack import as_attack, as_victim, check_eps, check_victim
from shiftproof.attacks.validity import validity_findings
from shiftproof.attacks.victim import frozen
from shiftproof.certification import Certifier
from shiftproof.certification.representations import linear_parts
from shiftproof.domains import Domain, Domains, validate
from shiftproof.domains.validate import class_findings
from shiftproof.errors import CheckFailed, DataError, ModelError, ShiftproofError, UsageError
from shiftproof.execution import Mode, check_writable, only_one, read_json
from shiftproof.models.files import fingerprint
from shiftproof.perturbations.deformation import Ball, as_ball
from shiftproof.perturbations.threat import Threat, as_threat
from shiftproof.probes import PROBES
from shiftproof.probes.certify import Certify, as_certifier
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

__all__ = ["LIMIT", "SIGMA", "THREATS", "Planned", "Subject", "audit", "plan_audit", "usual_certifiers", "wanted_of"]

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
    threats: str | Sequence[str | Ball] = THREATS,
    certifiers: Sequence[Certifier] | None = None,
    corruptions: str | Sequence[str] = "standard",
    severities: Sequence[int] | None = None,
    also: str | Sequence[str] = (),
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
    subject = Subject(model, known, target, name)
    # in eval mode for this, and as it was after it
    with frozen(model):
        chosen = usual_certifiers(subject) if certifiers is None else [recorded(one) for one in certifiers]
        wanted = wanted_of(threats, chosen, corruptions, severities, also)
        planned = plan_audit(
            subject, wanted, limit, budget, strict=strict, out=out, seed=seed, workers=workers, progress=progress
        )
        check_writable(planned.folder)
        return planned.run(workers, progress)


def wanted_of(
    threats: str | Sequence[str | Ball],
    certifiers: Sequence[dict[str, Any]],
    corruptions: str | Sequence[str],
    severities: Sequence[int] | None,
    also: str | Sequence[str],
) -> Wanted:
    """What is asked for, each thing once; texts may hold several with commas, and no corruptions are "none"."""
    balls = [as_ball(one) for one in _several(threats)]
    kinds = () if corruptions == "none" or not corruptions else as_corruptions(corruptions)
    named = tuple(dict.fromkeys(_several(also)))
    return Wanted(
        tuple(dict.fromkeys(balls)),
        tuple(certifiers),
        kinds,
        None if severities is None else tuple(severities),
        also=tuple(str(one) for one in named),
    )


def _several(value: Any) -> list[Any]:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else list(value)


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

    @property
    def measures(self) -> tuple[list[str], list[tuple[str, float]], list[str], bool]:
        """What there will be numbers of: domains, attacks (norm and size), norms of certificates, corruptions."""
        probes = [PROBES.create(choice.name, choice.options) for choice in self.study.probes]
        norms = [_norm_of(probe.certifier) for probe in probes if isinstance(probe, Certify)]
        attacks = [(threat.norm, threat.eps) for threat in self.threats]
        corrupted = any(choice.name == "corrupt" for choice in self.study.probes)
        return [domain.name for domain in self.data.measured], attacks, list(dict.fromkeys(norms)), corrupted

    def run(self, workers: int = 1, progress: Mode = "auto") -> Run:
        """Measure what is not measured."""
        subject, study, folder = self.subject, self.study, self.folder
        with only_one(folder):
            record = new_record(study, resolved(study), self.data)
            record = start_or_continue(
                folder,
                {
                    **record,
                    "asked": self.asked,
                    "noticed": [vars(one) for one in self.noticed],
                    "left_out": {name: list(ids) for name, ids in self.data.left_out.items()},
                },
            )
            found = [Finding(**one) for one in record["noticed"]]
            found += _examined(subject, self.data, self.threats, study)
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
    if limit is not None and limit < 1:
        raise UsageError(f"the limit is {limit}; it should be at least 1")
    if subject.target is not None and subject.target.name in subject.sources.names:
        raise UsageError(f"{subject.target.name!r} is both source and target; a target is what training leaves out")
    for threat in wanted.threats:
        check_size(threat, subject.sources.shape)
    asked = _asked(subject, wanted, limit, budget, seed)
    folder = Path(out) if out else Path("runs") / f"audit-{digest(asked)}"
    study, seconds = _begun(folder, asked), None
    data, read = _measured(subject, limit if study is None else study.limit, progress)
    for domain in data.measured:
        check_victim(as_victim(subject.model, None, 1, 1, seed), domain)
    noticed = [*_oddities(data), *data_findings(data)]
    noticed += seen_target(subject.name, dict(subject.card), str(subject.data["name"]), subject.target)
    _refuse_if_strict([*read, *noticed], strict)
    if study is None:
        wanted, unable = _applicable(subject, wanted, data)
        plan = fitting_plan(wanted, subject.model, data.measured, limit, available, workers)
        study, seconds = _study(subject, plan, seed, budget), plan.seconds
        if plan.limit != limit:
            data, read = _measured(subject, plan.limit, "off")
        noticed += [*unable, *_unreachable(study, wanted.threats, len(subject.sources.classes))]
    return Planned(subject, folder, study, data, wanted.threats, asked, [*read, *noticed], seconds)


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
    known = before.get("asked")
    if known is None:
        raise UsageError(f"{folder} holds the run of a study; choose another --out")
    changed = sorted(key for key in {*known, *asked} if known.get(key) != asked.get(key))
    if changed:
        raise UsageError(f"{folder} holds an audit that differs in {', '.join(changed)}; choose another --out")
    return validated(before["study"], str(path))


def _measured(subject: Subject, limit: int | None, progress: Mode) -> tuple[StudyData, list[Finding]]:
    """The samples that are measured, without those that can't be read, and what is odd about them."""
    whole = StudyData(subject.sources, subject.target, limit)
    looked = validate(Domains("measured", whole.measured), progress)
    data = replace(whole, left_out=looked.unreadable)
    for domain in data.measured:
        if not len(domain):
            raise DataError(f"none of the samples of {domain.name!r} that were looked at can be read")
    # classes are a matter of all labels, not of the samples that a limit has chosen
    odd = [one for one in looked.findings if one.code not in ("empty-part", "classes", "class-mismatch")]
    odd += class_findings(Domains("all", data.domains))
    return data, [replace(one, level="warn") for one in odd if one.level != "pass"]


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
    """Without certificates and corruptions that do not apply, and why they do not; other probes must apply."""
    able: list[dict[str, Any]] = []
    found: list[Finding] = []
    if wanted.corruptions:
        try:
            check_probe(PROBES.create("corrupt", {}), subject.model, data.measured[-1], data.training)
        except UsageError as error:
            found.append(Finding("warn", "not-corrupted", str(error)))
            wanted = replace(wanted, corruptions=())
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


def _norm_of(certifier: Any) -> str:
    """In which its radii are."""
    noise = getattr(certifier, "noise", None)
    return str(getattr(certifier, "norm", "l2") if noise is None else noise.norm)


def _unreachable(study: Study, threats: Sequence[Ball], classes: int) -> Iterator[Finding]:
    """Certificates whose votes could not reach the size of an attack, however sure the model is."""
    certifiers = [as_certifier(choice.options["certifier"]) for choice in study.probes if choice.name == "certify"]
    for certifier in certifiers:
        if not hasattr(certifier, "largest_radius") or not hasattr(certifier, "noise"):
            continue
        cap, noise = certifier.largest_radius(classes), certifier.noise
        for threat in threats:
            if (threat.norm, threat.units) == (noise.norm, noise.units) and threat.eps > cap:
                message = f"{certifier.title} with {certifier.n:,} votes certifies no radius above {cap:.3g}"
                hint = (
                    f"so that nothing can be guaranteed within {threat.norm} {threat.eps:g}: more votes, or more noise"
                )
                yield Finding("warn", "out-of-reach", f"{message}, {hint}")


def _examined(subject: Subject, data: StudyData, threats: Sequence[Ball], study: Study) -> Iterator[Finding]:
    """Whether attacks on this model can be trusted, on a few samples of all domains, in every norm of pixels."""
    each = max(1, EXAMINED // len(data.measured))
    few = [domain.subset(np.unique(np.linspace(0, len(domain) - 1, each, dtype=np.int64))) for domain in data.measured]
    inputs, labels = (torch.cat(parts) for parts in zip(*(one.tensors() for one in few), strict=True))
    ids = [f"{one.name}/{sample}" for one in few for sample in one.ids]
    attacks = [as_attack(choice.options["attack"]) for choice in study.probes if choice.name == "attack"]
    said = set()
    for threat in [one for one in threats if isinstance(one, Threat)] or [as_threat(THREATS[0])]:
        mine = next((one for one in attacks if one.threat == threat), None)
        found = validity_findings(
            subject.model,
            inputs,
            labels,
            ids,
            threat,
            seed=study.seed,
            classes=len(subject.sources.classes),
            attack=mine,
        )
        for finding in found:
            if (finding.code, finding.message) not in said:
                yield finding
            said.add((finding.code, finding.message))
