"""A study that is ready to run: its data and models loaded, its folder found, its budget resolved."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shiftproof.errors import CheckFailed, UsageError
from shiftproof.execution import HERE, Compute, Mode, as_path, parse_duration
from shiftproof.probes import Probe
from shiftproof.report.claims.check import check_planned
from shiftproof.report.requirements import Requirement
from shiftproof.runs.budget import Plan, plan_probes
from shiftproof.runs.estimate import training_costs
from shiftproof.runs.measurable import changed_claims, check_measured, measurable
from shiftproof.runs.prepare import Prepared, prepare_study
from shiftproof.runs.pretraining import untrained
from shiftproof.runs.record import check_same, read_record
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import find_study, validated

__all__ = ["Planned", "plan_run"]


@dataclass(frozen=True, eq=False)
class Planned:
    """A study that is ready to run: where it goes, its budget resolved.

    Args:
        identity: What was asked, before a budget was resolved.
        plan: What it will take, from a trial of a moment; None if nothing was tried.
        begun: The record of the run that is in the folder already.
    """

    prepared: Prepared
    folder: Path
    identity: dict[str, Any]
    plan: Plan | None = None
    begun: dict[str, Any] | None = None

    @property
    def study(self) -> Study:
        """What is trained and measured."""
        return self.prepared.study

    @property
    def pieces(self) -> int:
        """How many measurements there are: every probe of every model on every domain."""
        return sum(
            len(self.prepared.data.measured_by(probe, member.name))
            for member in self.study.members
            for probe in self.study.probes_of(member.name)
        )

    @property
    def done(self) -> int:
        """How many of them are finished."""
        return sum(1 for _ in (self.folder / "evidence").rglob("*.parquet"))


def plan_run(
    study: Study | str | Prepared,
    out: Path | str | None = None,
    *,
    compute: Compute = HERE,
    progress: Mode = "auto",
    require: Sequence[Requirement] = (),
    strict: bool = False,
    trial: bool = False,
) -> Planned:
    """Load data and models, find the folder, and decide how much fits into a budget; nothing is written.

    A budget is resolved once: a run that was begun keeps what it was resolved to. With `trial`, every probe is tried
    for a moment even without a budget, to say how long it takes.
    """
    began = time.perf_counter()
    study = find_study(study) if isinstance(study, str) else study
    if not isinstance(study, Study | Prepared):
        raise UsageError(f"the study is {study!r}; it should be a Study, the name of one, or the path of a YAML file")
    prepared = prepare_study(study, progress) if isinstance(study, Study) else study
    if strict and (odd := [one for one in prepared.findings if one.level != "pass"]):
        more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        raise CheckFailed(f"{odd[0].message}{more}; without --strict the run would go on and say so")
    folder = as_path("out", out) if out else prepared.default_folder
    if (folder / "run.json").exists():
        begun = read_record(folder)
        check_same(folder, begun, prepared, prepared.identity)
        planned = Planned(_as_begun(prepared, begun, folder), folder, prepared.identity, begun=begun)
    else:
        # before a trial of the probes, which can take a while; at the greatest effort, so that votes are not too few
        _check_required(require, prepared, prepared.efforts[0] if prepared.efforts else prepared.study.all_probes)
        spent = time.perf_counter() - began
        planned = _resolve_budget(prepared, folder, compute, progress, trial, spent)
    _check_required(require, planned.prepared, planned.study.all_probes)
    return planned


def _as_begun(prepared: Prepared, begun: Mapping[str, Any], folder: Path) -> Prepared:
    """What was asked first is what is measured and shown, however it is written the second time."""
    stored = validated(begun["study"], str(folder / "run.json"))
    if prepared.study.handed_over:
        words = {key: getattr(stored, key) for key in ("name", "title", "about", "probes", "claims", "published")}
        stored = prepared.study.changed(**words, **({} if stored.prefix is None else {"prefix": stored.prefix}))
    findings = (*prepared.findings, *changed_claims(stored, prepared.study))
    # which tables figures are shown beside predicts nothing, and may change
    stored = stored.changed(published=prepared.study.published)
    return replace(prepared, study=stored, data=replace(prepared.data, prefix=stored.prefix), findings=findings)


def _resolve_budget(
    prepared: Prepared, folder: Path, compute: Compute, progress: Mode, trial: bool, spent: float
) -> Planned:
    """The study with the probes and the number of samples that fit into its budget."""
    study = prepared.study
    if study.budget is None and not trial:
        return Planned(prepared, folder, prepared.identity)
    sources = prepared.data.sources
    models = {
        name: prepared.models[name] if name in prepared.models else untrained(spec, sources).eval()
        for name, spec in study.models.items()
    }
    trained = [cost.seconds for name, model in models.items() for cost in training_costs(prepared, name, model)]
    repeated = [models[member.name].eval() for member in study.members]
    plan = plan_probes(
        prepared.efforts if prepared.efforts and study.budget is not None else [study.probes],
        repeated,
        prepared.data.measured,
        None if study.budget is None else parse_duration(study.budget),
        compute,
        progress,
        spent=spent,
        besides=sum(trained) * len(study.seeds or (0,)),
        examined=list(prepared.models.values()),
    )
    if study.budget is None:
        return Planned(prepared, folder, prepared.identity, plan)
    resolved = study.changed(probes=plan.probes, **({} if plan.prefix is None else {"prefix": plan.prefix}))
    data = replace(prepared.data, prefix=plan.prefix)
    return Planned(replace(prepared, study=resolved, data=data), folder, prepared.identity, plan)


def _check_required(require: Sequence[Requirement], prepared: Prepared, probes: Sequence[Probe]) -> None:
    """Refuse what will not have been measured, before anything is."""
    study = prepared.study
    if require or study.claims or study.published:
        planned = measurable(probes, prepared.data.measured, len(prepared.data.sources.classes), len(study.claims))
        check_planned(study.claims, study.published, planned, study.only_target)
        check_measured(study, prepared.data)
        for one in require:
            one.check(planned)
