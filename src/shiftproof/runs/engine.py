"""The one way from a study to a folder: open or continue it, train what is missing, measure what is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from shiftproof.domains import Domain
from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, EvidenceStore
from shiftproof.execution import (
    Compute,
    Mode,
    as_list,
    check_count,
    check_progress,
    check_writable,
    only_one,
    ready,
    write_atomically,
)
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.files import fingerprint
from shiftproof.probes import Probe, run_probe
from shiftproof.report.gallery.sheet import contact_sheet
from shiftproof.report.requirements import Requirement
from shiftproof.runs.cell_models import model_of_cell, trained_files
from shiftproof.runs.cells import run_cells
from shiftproof.runs.cluster_cells import measure_at_once, train_on_cluster
from shiftproof.runs.copies import copies_of_training
from shiftproof.runs.data import StudyData
from shiftproof.runs.derived import Models, derived_findings
from shiftproof.runs.examine import examine_models
from shiftproof.runs.gallery import write_galleries
from shiftproof.runs.model_spec import Member
from shiftproof.runs.models import check_cards, hash_cards, load_trained, model_file
from shiftproof.runs.plan import Planned, plan_run
from shiftproof.runs.prepare import Prepared
from shiftproof.runs.record import continue_record, new_record, write_record
from shiftproof.runs.run import Run, sheet_path
from shiftproof.runs.samples import known_of_samples
from shiftproof.runs.spec import Study
from shiftproof.training.checks import check_processes
from shiftproof.training.machine import math_threads, rank_devices
from shiftproof.types import Finding

__all__ = ["facts_of", "probe_seed", "run_study"]

_SILENT: Mode = "off"


def run_study(
    study: Study | str | Prepared | Planned,
    out: Path | str | None = None,
    *,
    workers: int = 1,
    device: str = "auto",
    cluster: str | None = None,
    processes: int = 1,
    progress: Mode = "auto",
    require: Sequence[Requirement | str] = (),
    radii: Sequence[float] = (),
    strict: bool = False,
    images: bool = True,
    command: str = "",
) -> Run:
    """Train what is not trained and measure what is not measured; the same call continues a run that was killed.

    `study` is a study, the name of one, or the path of a YAML file. What is asked of the numbers (`require`), and which
    `radii` tables show, may change from call to call: the numbers do not. With `strict`, anything odd about the data is
    an error. Without `images`, pictures and texts of samples are neither kept nor shown, and the report hashes their
    ids. `command` is what was typed, for whoever finds the run unfinished. With several `processes`, models are trained
    one after the other, each by all of them (see `train`).
    """
    compute = ready(Compute(device, workers=workers, cluster=cluster))
    check_progress(progress)
    check_count("processes", processes)
    rank_devices(device, processes)
    require, radii = Requirement.read(require), _as_radii(radii)
    if isinstance(study, Planned):
        planned = study
    else:
        planned = plan_run(study, out, compute=compute, progress=progress, require=require, strict=strict)
    for spec in planned.study.models.values():
        for phase in filter(None, (spec.pretrain, spec) if spec.train else ()):
            check_processes(phase.objective, phase.recipe, processes)
    check_writable(planned.folder)
    with only_one(planned.folder), compute.exact_products():
        record = _open_folder(planned, command)
        record |= _asked_of_numbers(record, require, radii) | {"images": images}
        return _fill_folder(planned, record, compute, progress, processes)


def _open_folder(planned: Planned, command: str) -> dict[str, Any]:
    """The record of the run that is in the folder already, or a new one, written."""
    folder = planned.folder
    if planned.begun is not None:
        # another call may have gone on with it until this one had the folder to itself
        record = continue_record(folder)
        kept = {key: value for key, value in record["study"].items() if key != "published"}
        shown = planned.study.to_config().get("published")
        return {**record, "study": {**kept, **({"published": shown} if shown else {})}}
    foreign = [name for name in ("run.json", "model.safetensors", "models", "evidence") if (folder / name).exists()]
    if foreign == ["run.json"]:
        raise UsageError(f"another call has begun a run in {folder} in the meantime; run the same command again")
    if foreign:
        raise UsageError(
            f"{folder} holds {foreign[0]}, but no run.json: what is there is no run that could be continued; choose "
            "another --out"
        )
    record = new_record(planned.prepared, planned.identity, command)
    write_record(folder, record)
    return record


def _as_radii(radii: Any) -> list[float]:
    """Radii of tables."""
    told = as_list("radii", radii, "[0.25, 0.5]")
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one < math.inf for one in told):
        raise UsageError(f"radii are {radii!r}; they should be numbers of at least 0, such as [0.25, 0.5]")
    return [float(one) for one in told]


def _asked_of_numbers(
    record: Mapping[str, Any], require: Sequence[Requirement], radii: Sequence[float]
) -> dict[str, Any]:
    """What this call asks of the numbers; one that asks for nothing takes nothing out of the report."""
    required = [one.text for one in require] or record.get("require", [])
    return {"require": required, "radii": list(radii) or record.get("radii", [])}


def _fill_folder(planned: Planned, record: dict[str, Any], compute: Compute, progress: Mode, processes: int) -> Run:
    """Train every model, then run every probe of the study on every model and domain."""
    prepared, folder, study, data = planned.prepared, planned.folder, planned.study, planned.prepared.data
    check_cards(folder, record["fingerprints"])
    # runs of before have trained with all threads
    threads = record.setdefault("cell_threads", torch.get_num_threads())
    _train_cells(planned, threads, compute, progress, processes)
    models = {member: model_of_cell(planned, threads, compute, progress, processes, member) for member in study.members}
    copies = copies_of_training(study, data)
    findings = [*prepared.findings, *derived_findings(study, data, models, copies)]
    # a run that is continued has examined its models: that they answer as before is checked below
    if "examined" not in record:
        record["examined"] = [
            asdict(one) for one in examine_models(prepared.models, data, study.all_probes, compute, progress)
        ]
    findings += [Finding(**one) for one in record["examined"]]
    record["fingerprints"]["weights"] = {member.key: fingerprint(model) for member, (model, _) in models.items()}
    record["fingerprints"]["cards"] = hash_cards(folder)
    record["behaviour"] = _same_behaviour(folder, record, data, models)
    record["measured"] = {
        member.key: known_of_samples(data, study, card, copies) for member, (_, card) in models.items()
    }
    record["selected"] = {member.key: card.get("selection") for member, (_, card) in models.items()}
    record["findings"] = [asdict(one) for one in findings]
    write_record(folder, record)
    _write_sheets(folder, data, wanted=record["images"])
    _measure_cells(planned, record, models, compute, progress)
    evidence = Evidence.concat(
        _measure(planned, record, compute, progress, model, member) for member, (model, _) in models.items()
    )
    first: dict[str, nn.Module] = {}
    for member, (model, _) in models.items():
        first.setdefault(member.name, model)
    # as in the workers that measured: with more threads sums are rounded otherwise
    with math_threads(1):
        write_galleries(folder, study, data, first, evidence, contents=record["images"])
    if "finished" not in record:
        # from now on, what is missing was removed
        record["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
        write_record(folder, record)
    return Run(folder, study, record, evidence)


def _write_sheets(folder: Path, data: StudyData, wanted: bool) -> None:
    """Draw the first samples of every domain of images; where nobody wants to see them, none stay."""
    for domain in data.measured:
        if not wanted:
            sheet_path(folder, domain.name).unlink(missing_ok=True)
        elif len(domain.shape) == 3:
            write_atomically(sheet_path(folder, domain.name), contact_sheet(domain))


def _train_cells(planned: Planned, threads: int, compute: Compute, progress: Mode, processes: int) -> None:
    """Train all models that are not there yet, in workers where that is worth it."""
    study = planned.study
    missing = [
        member
        for member in study.members
        # models that share a first phase wait for it
        if study.models[member.name].train
        and study.models[member.name].pretrain is None
        and not model_file(planned.folder, study, member).with_suffix(".json").exists()
    ]
    if compute.cluster is not None and processes == 1:
        remote = partial(trained_files, planned, threads, compute.alone())
        train_on_cluster(remote, missing, planned.folder, compute, threads, progress)
        return
    here, elsewhere = (
        partial(model_of_cell, planned, threads, compute, mode, processes) for mode in (progress, _SILENT)
    )
    run_cells(here, elsewhere, missing, compute.alone() if processes > 1 else compute, "training models", progress)


def _measure_cells(
    planned: Planned, record: Mapping[str, Any], models: Models, compute: Compute, progress: Mode
) -> None:
    """Measure all models that lack something, in workers where there are enough to keep them all busy."""
    study, data, store = planned.study, planned.prepared.data, EvidenceStore(planned.folder / "evidence")
    missing = [
        member
        for member in study.members
        if not all(
            store.path(member.name, domain.name, probe.name, repr(probe), member.seed).is_file()
            for probe in study.probes_of(member.name)
            for domain in data.measured_by(probe, member.name)
        )
    ]

    def here(member: Member, shown: Mode = progress) -> Evidence:
        return _measure(planned, record, compute, shown, models[member][0], member)

    if compute.cluster is not None:
        measure_at_once(partial(here, shown=_SILENT), missing, compute, progress)
        return
    elsewhere = partial(_measure, planned, record, compute.alone(), _SILENT, None)
    run_cells(here, elsewhere, missing, compute, "measuring models", progress, fewest=2 * compute.processes)


def _measure(
    planned: Planned,
    record: Mapping[str, Any],
    compute: Compute,
    progress: Mode,
    model: nn.Module | None,
    member: Member,
) -> Evidence:
    """Everything that is measured of one model, which is loaded if it is not given."""
    if model is None:
        taken = planned.prepared.models.get(member.name)
        sources = planned.prepared.data.sources
        model = load_trained(planned.study, sources, planned.folder, member) if taken is None else taken
    return Evidence.concat(
        _measure_by(probe, planned, record, member, model, compute, progress)
        for probe in planned.study.probes_of(member.name)
    )


def _measure_by(
    probe: Probe,
    planned: Planned,
    record: Mapping[str, Any],
    member: Member,
    model: nn.Module,
    compute: Compute,
    progress: Mode,
) -> Evidence:
    """One probe of one model on every domain; what a killed run has done is not done again."""
    data, store = planned.prepared.data, EvidenceStore(planned.folder / "evidence")
    return Evidence.concat(
        run_probe(
            probe,
            model,
            domain,
            store,
            model_name=member.name,
            train_seed=member.seed,
            seed=probe_seed(planned.study, record, member, probe),
            compute=compute,
            progress=progress,
            calibration=data.training,
            facts=facts_of(record, data, member, domain),
        )
        for domain in data.measured_by(probe, member.name)
    )


def probe_seed(study: Study, record: Mapping[str, Any], member: Member, probe: Probe) -> int:
    """What a probe's draws are keyed by: the seed that trained the model; for a vote under noise of a model that the
    run did not train, the run's own, which no model can have been made for.
    """
    if study.models[member.name].train or probe.classifier == "base":
        return study.seed if member.seed is None else member.seed
    return int(record.get("noise_seed", study.seed))


def facts_of(record: Mapping[str, Any], data: StudyData, member: Member, domain: Domain) -> dict[str, str]:
    """What is known of the samples of a domain that a probe measures."""
    known: dict[str, str] = record.get("measured", {}).get(member.key, {}).get(domain.name, {})
    return known | data.sampled_of(domain)


def _same_behaviour(folder: Path, record: Mapping[str, Any], data: StudyData, models: Models) -> dict[str, Any]:
    """What every model answers to fixed inputs of each domain; what was recorded before must be the same."""
    known = record.get("behaviour")
    now: dict[str, Any] = {
        member.key: {domain.name: behaviour_of(model, domain) for domain in data.measured}
        for member, (model, _) in models.items()
    }
    if known is None:
        if any((folder / "evidence").rglob("*.parquet")):
            raise UsageError(
                f"{folder} does not say how its models answered, so that its results could be of another model; "
                "choose another --out, or remove it"
            )
        return now
    for name, places in now.items():
        for domain, answers in places.items():
            changed = difference(known[name][domain], answers)
            if changed:
                raise UsageError(
                    f"{name} is not the model that {folder} holds results of: its weights are the same, but on "
                    f"{domain}, {changed}; choose another --out, or remove the folder to measure anew"
                )
    return dict(known)
