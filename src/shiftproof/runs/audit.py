"""The audit of a model: clean, attacked, corrupted and certified on the same samples, per domain, in one report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.attacks.attack import as_victim, check_size, check_victim
from shiftproof.attacks.victim import frozen
from shiftproof.certification import Certifier
from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import check_part
from shiftproof.errors import CheckFailed, DataError, UsageError
from shiftproof.execution import Mode, check_writable, only_one, progress_bar, read_json
from shiftproof.models.identity import identity_of
from shiftproof.perturbations.deformation import Ball, as_ball
from shiftproof.perturbations.threat import Threat, as_threat
from shiftproof.probes import PROBES
from shiftproof.probes.corrupt import as_corruptions
from shiftproof.report.requirements import Requirement
from shiftproof.runs.data import StudyData, data_findings
from shiftproof.runs.engine import measure_models
from shiftproof.runs.examine import examine_model
from shiftproof.runs.identity import digest, resolved
from shiftproof.runs.measurable import measurable
from shiftproof.runs.models import kept_copy, model_file
from shiftproof.runs.one_model import certifier_config
from shiftproof.runs.plan import EFFORTS, Plan, Wanted, fitting_plan, parse_budget
from shiftproof.runs.record import new_record, start_or_continue
from shiftproof.runs.run import Run
from shiftproof.runs.scale import scale_findings
from shiftproof.runs.seen import seen_target
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import validated
from shiftproof.runs.subject import (
    THREATS,
    Subject,
    applicable,
    measured_data,
    measured_parts,
    oddities,
    unreachable,
    usual_certifiers,
)
from shiftproof.types import Finding

__all__ = ["LIMIT", "Planned", "audit", "plan_audit", "wanted_of"]

LIMIT = 500
"""Samples of a domain that are measured, unless told."""


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
    require: Sequence[str] = (),
    strict: bool = False,
    out: Path | str | None = None,
    name: str = "model",
    seed: int | None = None,
    sample_seed: int = 0,
    split: str | None = None,
    workers: int = 1,
    progress: Mode = "auto",
) -> Run:
    """Measure a model of yours on its training domains and on the one it is shipped to: clean, attacked, corrupted and
    certified, on the same samples.

    Nobody knows which samples of the sources the model was trained on, so that all are measured and marked; for one
    that `sp.train` has trained, `split="held-out"` takes those that it was not. At most `limit` samples of a domain are
    taken, at random by `sample_seed`; `budget` ("20m") says how much time there is, and decides how hard every question
    is asked. Without `certifiers`, the majority vote under Gaussian noise is certified. Noise is keyed by a seed that
    is drawn for the run and kept in its record, unless `seed` fixes it. `also` names further probes, such as "search"
    and "input-robustness". `require` are texts such as "clean>=0.8", judged in `run.outcomes` and in the report. The
    same call continues one that was stopped.

    >>> run = audit(model, sources, target, budget="5m")  # doctest: +SKIP
    >>> run.verdict, run.findings, run.report("report.html")  # doctest: +SKIP
    """
    if not isinstance(sources, Domains | Domain) or not (target is None or isinstance(target, Domain)):
        raise UsageError("audit takes domains: sources, target = sp.load_domains(...).leave_out('sketch')")
    known = sources if isinstance(sources, Domains) else Domains(sources.name, [sources])
    subject = Subject(model, known, target, name)
    # in eval mode for this, and as it was after it
    with frozen(model):
        chosen = usual_certifiers(subject) if certifiers is None else [certifier_config(one) for one in certifiers]
        wanted = wanted_of(threats, chosen, corruptions, severities, also)
        planned = plan_audit(
            subject,
            wanted,
            limit,
            budget,
            require=[Requirement.parse(text) for text in require],
            strict=strict,
            out=out,
            seed=seed,
            sample_seed=sample_seed,
            split=split,
            workers=workers,
            progress=progress,
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

    `plan` says what it will take, from a trial of a moment; None if it was begun before.
    """

    subject: Subject
    folder: Path
    study: Study
    data: StudyData
    threats: tuple[Ball, ...]
    asked: dict[str, Any]
    noticed: list[Finding]
    plan: Plan | None
    require: Sequence[Requirement] = ()

    @property
    def pieces(self) -> int:
        """How many measurements there are: every probe on every domain."""
        return len(self.study.probes) * len(self.data.measured)

    @property
    def done(self) -> int:
        """How many of them are finished."""
        return sum(1 for _ in (self.folder / "evidence").rglob("*.parquet"))

    def run(self, workers: int = 1, progress: Mode = "auto") -> Run:
        """Measure what is not measured."""
        subject, study, folder = self.subject, self.study, self.folder
        with only_one(folder):
            record = new_record(study, resolved(study), self.data, self.asked["seed"])
            record = start_or_continue(
                folder,
                {
                    **record,
                    "asked": self.asked,
                    "noticed": [vars(one) for one in self.noticed],
                    "left_out": {name: list(ids) for name, ids in self.data.left_out.items()},
                },
                self.asked["seed"],
            )
            # what is asked of the numbers may change from call to call; the numbers do not
            # a call that asks for nothing takes no requirement out of the report
            if self.require or "require" not in record:
                record["require"] = [one.text for one in self.require]
            found = [Finding(**one) for one in record["noticed"]]
            # an audit that is continued has examined its model: that it answers as before is checked below
            if "examined" not in record:
                with progress_bar("examining the model", 1, progress) as bar:
                    pixels = [one for one in self.threats if isinstance(one, Threat)] or [as_threat(THREATS[0])]
                    probes = [PROBES.create(choice.name, choice.options) for choice in study.probes]
                    said = examine_model(subject.model, self.data, pixels, probes, study.seed)
                    record["examined"] = [asdict(one) for one in said]
                    bar.advance()
            found += [Finding(**one) for one in record["examined"]]
            card = kept_copy(
                subject.model, dict(subject.card), subject.sources, model_file(folder, study, subject.name)
            )
            models = {subject.name: (subject.model, card)}
            return measure_models(folder, study, record, self.data, models, found, workers, progress)


def plan_audit(
    subject: Subject,
    wanted: Wanted,
    limit: int | None,
    budget: str | None,
    *,
    require: Sequence[Requirement] = (),
    strict: bool = False,
    out: Path | str | None = None,
    seed: int | None = None,
    sample_seed: int = 0,
    split: str | None = None,
    workers: int = 1,
    progress: Mode = "auto",
) -> Planned:
    """Look at data and model, and decide how hard every question is asked; nothing is written."""
    began, available = time.perf_counter(), None if budget is None else parse_budget(budget)
    if limit is not None and limit < 1:
        raise UsageError(f"the limit is {limit}; it should be at least 1")
    if subject.target is not None and subject.target.name in subject.sources.names:
        raise UsageError(f"{subject.target.name!r} is both source and target; a target is what training leaves out")
    for threat in wanted.threats:
        check_size(threat, subject.sources.shape)
    check_part(split)
    asked = _asked(subject, wanted, limit, budget, seed) | {"sample_seed": sample_seed, "split": split}
    folder = Path(out) if out else Path("runs") / f"audit-{digest(asked)}"
    study, plan = _begun(folder, asked), None
    chosen = sample_seed, measured_parts(subject, split, wanted)
    data, read = measured_data(subject, limit if study is None else study.limit, progress, *chosen)
    data = data if study is None else replace(data, prefix=study.prefix)
    for domain in data.measured:
        check_victim(as_victim(subject.model, None, 1, 1, 0), domain)
    noticed = [*oddities(data), *data_findings(data)]
    noticed += seen_target(subject.name, dict(subject.card), str(subject.data["name"]), subject.target)
    _refuse_if_strict([*read, *noticed], strict)
    classes = len(subject.sources.classes)
    if study is None:
        wanted, unable = applicable(subject, wanted, data)
        if available is not None:
            # a budget is spent on what is asked: votes stop where these radii are decided
            wanted = replace(wanted, radii=tuple(one.size for one in require if one.metric == "certified" and one.size))
        # before a trial of the probes, which can take a while; at the greatest effort, so that votes are not too few
        _check_required(require, _named(wanted.probes(EFFORTS[0])), data, classes)
        noticed += scale_findings(subject.model, data.measured[: len(subject.sources)])
        spent = time.perf_counter() - began
        plan = fitting_plan(wanted, subject.model, data.measured, available, workers, progress, spent)
        study, data = _study(subject, plan, limit, asked), replace(data, prefix=plan.prefix)
        noticed += [*unable, *unreachable(study, wanted.threats, classes)]
    _check_required(require, [(choice.name, choice.options) for choice in study.probes], data, classes)
    return Planned(subject, folder, study, data, wanted.threats, asked, [*read, *noticed], plan, require)


def _named(probes: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(probe["name"], {key: value for key, value in probe.items() if key != "name"}) for probe in probes]


def _check_required(
    require: Sequence[Requirement], probes: Sequence[tuple[str, dict[str, Any]]], data: StudyData, classes: int
) -> None:
    if require:
        planned = measurable(probes, data.measured, classes)
        for one in require:
            one.check(planned)


def _asked(subject: Subject, wanted: Wanted, limit: int | None, budget: str | None, seed: int | None) -> dict[str, Any]:
    """All that was asked for, in a form that fits into JSON: the name of the folder, and what a resume must match."""
    places = [*subject.sources, *([] if subject.target is None else [subject.target])]
    same = identity_of("audit", subject.model, places, seed=seed)
    return {
        "model": same["weights"],
        "name": subject.name,
        "data": same["data"],
        "target": None if subject.target is None else subject.target.name,
        "threats": [threat.spec for threat in wanted.threats],
        "certifiers": list(wanted.certifiers),
        "corruptions": list(wanted.corruptions),
        "severities": None if wanted.severities is None else list(wanted.severities),
        "also": list(wanted.also),
        "limit": limit,
        "budget": budget,
        "seed": same["seed"],
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
    # whoever names no seed, or the one that was drawn, asks for the same draws
    same_seed = asked["seed"] in (None, before.get("noise_seed"))
    changed = sorted(key for key in {*known, *asked} if known.get(key) != asked.get(key))
    changed = [key for key in changed if key != "seed" or not same_seed]
    if changed:
        raise UsageError(f"{folder} holds an audit that differs in {', '.join(changed)}; choose another --out")
    return validated(before["study"], str(path))


def _study(subject: Subject, plan: Plan, limit: int | None, asked: dict[str, Any]) -> Study:
    budget = asked["budget"]
    where = "no domain was left out" if subject.target is None else f"{subject.target.name} is where it is shipped to"
    planned = "" if budget is None else f" Planned for {budget}."
    document = {
        "name": "audit",
        "title": f"Audit of {subject.name}",
        "about": f"The same samples of every domain as they are, attacked, corrupted and certified; {where}.{planned}",
        "data": dict(subject.data),
        "source": list(subject.sources.names),
        "target": None if subject.target is None else subject.target.name,
        # a seed that is asked for, or drawn, keys the noise; nothing is trained here, and the rest stays comparable
        "seed": 0,
        "sample_seed": asked["sample_seed"],
        "split": asked["split"],
        "limit": limit,
        "prefix": plan.prefix,
        "models": {subject.name: {"model": dict(subject.spec), "train": False}},
        "probes": plan.probes,
    }
    return validated(document, "the audit")


def _refuse_if_strict(findings: Sequence[Finding], strict: bool) -> None:
    if strict and (odd := [one for one in findings if one.level != "pass"]):
        more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        raise CheckFailed(f"{odd[0].message}{more}; without --strict the audit would go on and say so")
