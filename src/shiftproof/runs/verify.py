"""Everything that a finished run certifies, doubted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from shiftproof.certification import Certificates, Certifier
from shiftproof.certification.certifier import Job
from shiftproof.domains import Domain
from shiftproof.errors import DataError, ModelError, ShiftproofError, UsageError
from shiftproof.evidence import EvidenceStore
from shiftproof.evidence.certificates import certificates_in
from shiftproof.evidence.order import order_findings
from shiftproof.evidence.store import StoredFile
from shiftproof.evidence.titles import certificate_titles
from shiftproof.execution import Compute
from shiftproof.models.identity import identity_of
from shiftproof.models.placement import on_device
from shiftproof.objectives import OBJECTIVES
from shiftproof.probes import Probe
from shiftproof.probes.certify import Certify
from shiftproof.runs.absent import AbsentProbe, absent_in, can_measure
from shiftproof.runs.data import StudyData, load_study_data
from shiftproof.runs.engine import facts_of, probe_seed
from shiftproof.runs.model_spec import Member
from shiftproof.runs.models import load_trained, model_file
from shiftproof.runs.run import Run, open_run
from shiftproof.runs.trust import Trust
from shiftproof.runs.verification import Case, verify
from shiftproof.runs.verification.measured import attacked_again, clean_again, corrupted_again
from shiftproof.runs.verify_imported import check_imported
from shiftproof.runs.verify_record import check_hashes, check_run_json, check_seal
from shiftproof.runs.verify_texts import check_report
from shiftproof.types import Finding

__all__ = ["verify_folder"]

NOTHING = Trust()
"""What is trusted unless the user says so."""


def verify_folder(
    folder: Path, *, seed: int, part: int = 24, trust: Trust = NOTHING, device: str = "auto"
) -> Iterator[Finding]:
    """Findings on what is in the folder of a run, as they are made.

    `part` certificates of every model, domain and setting are asked again and attacked, and as many answers under
    every corruption computed again. Code that the folder names is run, and data of the hub fetched, only as far as the
    user says so himself: `trust`. Models are asked on the `device`, on which nothing has to have been computed before.
    """
    compute = Compute(device).check()
    if (folder / "run.json").is_file():
        try:
            run = open_run(folder, unfinished=True)
            run.evidence.check_readable()
        except (DataError, UsageError) as error:
            # what can't be read can't be trusted, and is no mistake of whoever asks
            yield Finding("fail", "run-unreadable", str(error))
            return
        if run.absent:
            # what is not checked may not pass for verified; how a model was trained is not checked here
            needed = any(not name.startswith(OBJECTIVES.kind) for name in absent_in(run.study))
            yield Finding("fail" if needed else "warn", "not-installed", run.absent)
        if not can_measure(run.study):
            yield from _of_evidence(run)
            if run.imported:
                yield from check_imported(run)
            return
        # of models there are copies: no published weights are fetched
        named = [(one.model.name, {**one.model.options, "pretrained": False}) for one in run.study.models.values()]
        trust.check(folder, run.study.data.source, named)
        with compute.exact_products():
            yield from _of_run(run, seed, part, compute)
    else:
        raise DataError(f"{folder} holds no run: it has no run.json")


def _of_evidence(run: Run) -> Iterator[Finding]:
    """What can be checked without data and models: evidence against itself, and what is shown against evidence."""
    yield from check_seal(run)
    faults = [
        Finding("fail", code, f"{'/'.join(file.path.parts[-3:])}: {what}")
        for file in EvidenceStore(run.folder / "evidence").files()
        for code, what in _faults_inside(file)
    ]
    yield from faults
    if not faults:
        yield Finding("pass", "evidence-same", "files of evidence are as they were written")
    yield from order_findings(run.evidence)
    yield from _shown(run)


def _shown(run: Run, measured: Sequence[Domain] = ()) -> Iterator[Finding]:
    try:
        yield from check_report(run, measured)
    except ShiftproofError as error:
        yield Finding("fail", "report-impossible", f"no report follows from what is there: {error}")


def _of_run(run: Run, seed: int, part: int, compute: Compute) -> Iterator[Finding]:
    yield from check_seal(run)
    data = load_study_data(run.study, run.record.get("left_out"), run.record.get("parts"))
    models: dict[Member, nn.Module] = {}
    for member in run.study.members:
        path = model_file(run.folder, run.study, member)
        try:
            if path.is_file() or "finished" in run.record:
                models[member] = load_trained(run.study, data.sources, run.folder, member)
        except ModelError as error:
            yield Finding("fail", "model-unreadable", str(error))
    yield from check_hashes(run, data, models)
    yield from check_run_json(run, data, models)
    yield from _files(run, data, models)
    placed = {member: on_device(model, compute.place) for member, model in models.items()}
    yield from clean_again(run, data, placed)
    yield from attacked_again(run, data, placed, seed, part)
    yield from corrupted_again(run, data, placed, seed, part)
    yield from order_findings(run.evidence)
    # of a run that lacks some, nothing is shown that could be compared
    if run.evidence.rows and all(path.is_file() for path in _expected(run, data)):
        yield from _shown(run, data.measured)
    yield from _certificates(run, data, placed, seed, part)


def _certificates(
    run: Run, data: StudyData, models: Mapping[Member, nn.Module], seed: int, part: int
) -> Iterator[Finding]:
    """Every certificate, doubted."""
    certifying = {
        setting: (probe, certifier)
        for probe in run.study.all_probes
        if isinstance(probe, Certify)
        for setting, certifier in probe.settings.items()
    }
    if not certifying and not run.absent:
        yield Finding("warn", "no-certificates", f"{run.folder} certifies nothing: no probe of its study does")
    titles = certificate_titles(run.evidence)
    for member, model in models.items():
        for setting, (probe, certifier) in certifying.items():
            for domain in data.measured_by(probe, member.name):
                same = {"model": member.name, "train_seed": member.seed, "domain": domain.name, "probe": "certify"}
                found = run.evidence.where(setting=setting, **same)
                if not len(found):
                    if _evidence_path(run, member, probe, domain).is_file():
                        message = f"{member.title} on {domain.name}: no certificates by {certifier.title}"
                        yield Finding("fail", "rows-missing", message)
                    continue
                where = f"{member.title} on {domain.name}, {titles[setting]}"
                certifying_seed = probe_seed(run.study, run.record, member, probe)
                job = replace(probe.job(model, domain), seed=certifying_seed, calibration=data.training)
                if certifier.classifier == "smoothed":
                    # who is asked for votes may be on any device; what else is certified was computed on the CPU
                    job = replace(job, model=model)
                yield from _case(where, certificates_in(found[0], job.classes), certifier, job, seed, part)


def _evidence_path(run: Run, member: Member, probe: Probe, domain: Domain) -> Path:
    store = EvidenceStore(run.folder / "evidence")
    return store.path(member.name, domain.name, probe.name, repr(probe), member.seed)


def _case(
    name: str, certificates: Certificates, certifier: Certifier, job: Job, seed: int, part: int
) -> Iterator[Finding]:
    if certificates.ids.tolist() != job.domain.ids.tolist():
        yield Finding("fail", "samples-differ", f"{name}: certificates are not of the samples of {job.domain.name}")
        return
    yield from verify(Case(name, certificates, certifier, job, seed, part))


def _expected(run: Run, data: StudyData) -> dict[Path, tuple[Member, Probe, Domain]]:
    """Where the evidence of everything that the study asks for belongs."""
    return {
        _evidence_path(run, member, probe, domain): (member, probe, domain)
        for member in run.study.members
        for probe in run.study.probes_of(member.name)
        for domain in data.measured_by(probe, member.name)
    }


def _files(run: Run, data: StudyData, models: Mapping[Member, nn.Module]) -> Iterator[Finding]:
    """Whether every file of evidence is where it belongs, answers the question that the study asks, of samples as they
    are, and is as it was written.
    """
    expected = _expected(run, data)
    files = {file.path: file for file in EvidenceStore(run.folder / "evidence").files()}
    faults = list(_missing(run, len(models), [path for path in expected if path not in files], len(expected)))
    for path, file in files.items():
        member, probe, domain = expected.get(path, (None, None, None))
        if member is None or probe is None or domain is None:
            wrong: list[tuple[str, str]] = [("evidence-unexpected", "the study asks for no such rows")]
        else:
            # a model that can't be read has been named already
            wrong = list(_faults(run, file, data, member, models[member], probe, domain)) if member in models else []
        faults += [Finding("fail", code, f"{_short(path)}: {what}") for code, what in wrong]
    yield from faults
    if not faults:
        yield Finding("pass", "evidence-same", f"{len(files)} files of evidence are as they were written")


def _missing(run: Run, models: int, missing: list[Path], count: int) -> Iterator[Finding]:
    """What is not there: one sentence for a run that was stopped, one for each file that was removed from another."""
    if missing and "finished" not in run.record:
        command = run.record.get("command")
        how = f"continue it with: {command}" if command else "the same call in Python continues it"
        untrained = len(run.study.members) - models
        more = f", {untrained} of {len(run.study.members)} models are not trained yet" if untrained else ""
        message = f"the run is not finished: {len(missing)} of {count} measurements are missing{more}; {how}"
        yield Finding("fail", "unfinished", message)
        return
    for path in missing:
        message = f"{_short(path)}: the study asks for it, and it is not there: the file was removed"
        yield Finding("fail", "rows-missing", message)


def _short(path: Path) -> str:
    return "/".join(path.parts[-3:])


def _faults(
    run: Run, file: StoredFile, data: StudyData, member: Member, model: nn.Module, probe: Probe, domain: Domain
) -> Iterator[tuple[str, str]]:
    if isinstance(probe, AbsentProbe):
        yield from _faults_inside(file)
        return
    seed, facts = probe_seed(run.study, run.record, member, probe), facts_of(run.record, data, member, domain)
    asked = {"probe": repr(probe), **facts}
    due = json.loads(json.dumps(identity_of(asked, model, domain, seed=seed, calibration=data.training)))
    if (file.identity.get("weights"), file.identity.get("data")) != (due["weights"], due["data"]):
        yield "evidence-of-other", "rows are of other weights or other data"
    elif file.identity != due:
        yield "evidence-of-other", "rows answer another question than the study asks: other options, seed or samples"
    said = {"model": member.name, "domain": domain.name, "probe": probe.name, "seed": seed, **facts}
    said |= {} if member.seed is None else {"train_seed": member.seed}
    settings = set(probe.settings) if isinstance(probe, Certify) else None
    for one in file.evidence:
        wrong = [fact for fact, value in said.items() if one.fact(fact) != value]
        if settings is not None and one.setting not in settings:
            yield "evidence-unexpected", f"the study asks for no rows of {one.setting!r}"
        elif wrong:
            yield "facts-differ", f"rows say {wrong[0]} {one.fact(wrong[0])!r}, and should say {said[wrong[0]]!r}"
    ids, labels, column = domain.ids.tolist(), domain.labels.tolist(), "truth" if domain.is_regression else "label"
    if any(one["id"].tolist() != ids or one[column].tolist() != labels for one in file.evidence):
        yield "labels-differ", "samples or labels are not those of the data"
    yield from _faults_inside(file)


def _faults_inside(file: StoredFile) -> Iterator[tuple[str, str]]:
    """What is wrong with a file of evidence by itself."""
    judged = [one for one in file.evidence if "correct" in one and "prediction" in one]
    if any((one["correct"] != (one["prediction"] == one["label"])).any() for one in judged):
        yield "correct-differs", "rows are called right or wrong that are not"
    if not file.untouched:
        yield "evidence-changed", "rows were changed after they were written"
