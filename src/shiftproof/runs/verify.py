"""Everything that a finished run certifies, doubted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from torch import nn

from shiftproof.certification import Certificates, Certifier
from shiftproof.certification.certifier import Job
from shiftproof.domains import Domain
from shiftproof.errors import DataError, ShiftproofError, UsageError
from shiftproof.evidence import EvidenceStore
from shiftproof.evidence.certificates import certificates_in
from shiftproof.evidence.order import order_findings
from shiftproof.evidence.store import StoredFile
from shiftproof.evidence.titles import certificate_titles
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.files import fingerprint
from shiftproof.models.identity import identity_of
from shiftproof.objectives import OBJECTIVES
from shiftproof.probes import Probe
from shiftproof.probes.certify import Certify
from shiftproof.runs.absent import AbsentProbe, absent_in, can_measure
from shiftproof.runs.data import StudyData, load_study_data
from shiftproof.runs.engine import facts_of, probe_seed
from shiftproof.runs.identity import digest
from shiftproof.runs.models import load_trained, model_file
from shiftproof.runs.run import Run, log_path, open_run
from shiftproof.runs.spec import Member
from shiftproof.runs.trust import Trust
from shiftproof.runs.verification import Case, verify
from shiftproof.runs.verification.measured import attacked_again, clean_again
from shiftproof.runs.verify_texts import check_log, check_report
from shiftproof.types import Finding

__all__ = ["verify_folder"]

NOTHING = Trust()
"""What is trusted unless the user says so."""


def verify_folder(folder: Path, *, seed: int, part: int = 24, trust: Trust = NOTHING) -> Iterator[Finding]:
    """Findings on what is in the folder of a run, as they are made.

    `part` certificates of every model, domain and setting are asked again and attacked. Code that the folder names is
    run, and data of the hub fetched, only as far as the user says so himself: `trust`.
    """
    if (folder / "run.json").is_file():
        try:
            run = open_run(folder, unfinished=True)
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
            return
        # of models there are copies: no published weights are fetched
        named = [(one.model.name, {**one.model.options, "pretrained": False}) for one in run.study.models.values()]
        trust.check(folder, run.study.data.source, named)
        yield from _of_run(run, seed, part)
    else:
        raise DataError(f"{folder} holds no run: it has no run.json")


def _of_evidence(run: Run) -> Iterator[Finding]:
    """What can be checked without data and models: evidence against itself, and what is shown against evidence."""
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


def _shown(run: Run) -> Iterator[Finding]:
    try:
        yield from check_report(run)
    except ShiftproofError as error:
        yield Finding("fail", "report-impossible", f"no report follows from what is there: {error}")


def _of_run(run: Run, seed: int, part: int) -> Iterator[Finding]:
    data = load_study_data(run.study, run.record.get("left_out"), run.record.get("parts"))
    models = {member: load_trained(run.study, data.sources, run.folder, member) for member in run.study.members}
    yield from _hashes(run, data, models)
    certifying = {
        setting: (probe, certifier)
        for probe in run.study.probes
        if isinstance(probe, Certify)
        for setting, certifier in probe.settings.items()
    }
    yield from _record(run, data, models)
    yield from _files(run, data, models)
    yield from clean_again(run, data, models)
    yield from attacked_again(run, data, models, seed, part)
    yield from order_findings(run.evidence)
    yield from _shown(run)
    if not certifying and not run.absent:
        yield Finding("warn", "no-certificates", f"{run.folder} certifies nothing: no probe of its study does")
    titles = certificate_titles(run.evidence)
    for member, model in models.items():
        for setting, (probe, certifier) in certifying.items():
            for domain in data.measured_by(probe):
                same = {"model": member.name, "train_seed": member.seed, "setting": setting}
                found = run.evidence.where(domain=domain.name, probe="certify", **same)
                if not len(found):
                    message = f"{member.title} on {domain.name}: no certificates by {certifier!r}"
                    yield Finding("fail", "rows-missing", message)
                    continue
                where = f"{member.title} on {domain.name}, {titles[setting]}"
                certifying_seed = probe_seed(run.study, run.record, member, probe)
                job = replace(probe.job(model, domain), seed=certifying_seed, calibration=data.training)
                certificates = certificates_in(found[0], job.classes)
                yield from _case(where, certificates, certifier, job, seed, part)
                if len(certificates) == len(domain):
                    yield from check_log(log_path(run.folder, found[0]), certificates, domain, where)


def _case(
    name: str, certificates: Certificates, certifier: Certifier, job: Job, seed: int, part: int
) -> Iterator[Finding]:
    if certificates.ids.tolist() != job.domain.ids.tolist():
        yield Finding("fail", "samples-differ", f"{name}: certificates are not of the samples of {job.domain.name}")
        return
    yield from verify(Case(name, certificates, certifier, job, seed, part))


def _hashes(run: Run, data: StudyData, models: dict[Member, nn.Module]) -> Iterator[Finding]:
    known = run.record["fingerprints"]
    now = {
        "data": {domain.name: domain.fingerprint for domain in data.domains},
        "weights": {member.key: fingerprint(model) for member, model in models.items()},
    }
    for kind, hashes in now.items():
        changed = [name for name, value in hashes.items() if known[kind].get(name) != value]
        for name in changed:
            yield Finding(
                "fail", f"{kind}-differ", f"{name}: {kind} are not those that the run recorded; the hash differs"
            )
        if not changed:
            yield Finding("pass", f"{kind}-same", f"{kind} of {', '.join(hashes)} are those that the run recorded")
    for member, model in models.items():
        answers = run.record.get("behaviour", {}).get(member.key, {})
        if run.evidence.rows and not answers:
            message = f"run.json does not say how {member.title} answered when it was measured; it was edited"
            yield Finding("fail", "behaviour-missing", message)
        for domain in data.measured if answers else ():
            differs = difference(answers.get(domain.name, []), behaviour_of(model, domain))
            if differs:
                message = f"{member.title} does not answer as the model that was measured: on {domain.name}, {differs}"
                yield Finding("fail", "behaviour-differs", message)


def _record(run: Run, data: StudyData, models: dict[Member, nn.Module]) -> Iterator[Finding]:
    """Whether run.json says of the study and its data what follows from them."""
    due = {
        "sources": list(data.sources.names),
        "classes": list(data.sources.classes),
        "labels": {domain.name: domain.class_counts for domain in data.domains},
    }
    differs = [name for name, value in due.items() if run.record[name] != value]
    known = run.record["config"]
    # a budget chooses the probes, and what was asked is what it chose from
    if run.study.budget is None and known.get("probes") != [probe.to_config() for probe in run.study.probes]:
        differs.append("config.probes")
    asked = run.study.to_config()
    told = {key: asked.get(key) for key in ("data", "target", "seeds", "sample_seed", "split", "limit", "budget")}
    differs += [f"config.{key}" for key, value in told.items() if known.get(key) != value]
    configs = known.get("models", {})
    if set(configs) != set(run.study.models):
        differs.append("config.models")
    owned = {model_file(run.folder, run.study, member).stem for member in models}
    owned |= {f"{name}-pretrained" for name in owned}
    for path in sorted((run.folder / "models").glob("*.safetensors")):
        if path.stem not in owned:
            yield Finding("fail", "model-unexpected", f"models/{path.name}: the study has no such model")
    for member, model in models.items():
        weights = configs.get(member.name, {}).get("weights")
        if weights is not None and weights != fingerprint(model):
            differs.append(f"config.models.{member.name}.weights")
    if run.record["hash"] != digest(known):
        differs.append("hash")
    if differs:
        message = f"run.json does not say what follows from its study and data: {', '.join(differs)}"
        yield Finding("fail", "record-differs", message)


def _files(run: Run, data: StudyData, models: dict[Member, nn.Module]) -> Iterator[Finding]:
    """Whether every file of evidence is where it belongs, answers the question that the study asks, of samples as they
    are, and is as it was written.
    """
    store, faults = EvidenceStore(run.folder / "evidence"), []
    expected = {}
    for member, model in models.items():
        for probe in run.study.probes:
            for domain in data.measured_by(probe):
                path = store.path(member.name, domain.name, probe.name, repr(probe), member.seed)
                expected[path] = (member, model, probe, domain)
    files = {file.path: file for file in store.files()}
    for path in [*expected, *(path for path in files if path not in expected)]:
        where = "/".join(path.parts[-3:])
        if path not in files:
            code, what = (
                "rows-missing",
                "the study asks for it, and it is not there: the run is not finished, or the file was removed",
            )
            faults.append(Finding("fail", code, f"{where}: {what}"))
        elif path not in expected:
            code, what = "evidence-unexpected", "the study asks for no such rows"
            faults.append(Finding("fail", code, f"{where}: {what}"))
        else:
            found = _faults(run, files[path], data, *expected[path])
            faults += [Finding("fail", code, f"{where}: {what}") for code, what in found]
    yield from faults
    if not faults:
        yield Finding("pass", "evidence-same", f"{len(files)} files of evidence are as they were written")


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
    ids, labels = domain.ids.tolist(), domain.labels.tolist()
    if any(one["id"].tolist() != ids or one["label"].tolist() != labels for one in file.evidence):
        yield "labels-differ", "samples or labels are not those of the data"
    yield from _faults_inside(file)


def _faults_inside(file: StoredFile) -> Iterator[tuple[str, str]]:
    """What is wrong with a file of evidence by itself."""
    if any((one["correct"] != (one["prediction"] == one["label"])).any() for one in file.evidence):
        yield "correct-differs", "rows are called right or wrong that are not"
    if not file.untouched:
        yield "evidence-changed", "rows were changed after they were written"
