"""Everything that a finished run certifies, doubted."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path

from torch import nn

from shiftproof.certification import Certificates, Certifier
from shiftproof.certification.certifier import Job
from shiftproof.domains import Domain
from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import EvidenceStore
from shiftproof.evidence.certificates import certificates_in
from shiftproof.evidence.order import order_findings
from shiftproof.evidence.store import StoredFile
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.files import fingerprint
from shiftproof.probes import PROBES
from shiftproof.probes.certify import Certify
from shiftproof.runs.data import StudyData, load_study_data
from shiftproof.runs.engine import probe_seed
from shiftproof.runs.models import load_trained
from shiftproof.runs.run import Run, log_path, open_run
from shiftproof.runs.trust import Trust
from shiftproof.runs.verification import Case, verify
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
        # of models there are copies: no published weights are fetched
        named = [(one.model.name, {**one.model.options, "pretrained": False}) for one in run.study.models.values()]
        trust.check(folder, run.study.data.name, named)
        yield from _of_run(run, seed, part)
    else:
        raise DataError(f"{folder} holds no run: it has no run.json")


def _of_run(run: Run, seed: int, part: int) -> Iterator[Finding]:
    data = load_study_data(run.study, run.record.get("left_out"), run.record.get("parts"))
    models = {name: load_trained(run.study, data.sources, run.folder, name) for name in run.study.models}
    yield from _hashes(run, data, models)
    certifying = {
        setting: (probe, certifier)
        for choice in run.study.probes
        if isinstance(probe := PROBES.create(choice.name, choice.options), Certify)
        for setting, certifier in probe.settings.items()
    }
    files = list(EvidenceStore(run.folder / "evidence").files())
    yield from _files(files, models, data, certifying)
    yield from order_findings(run.evidence)
    yield from check_report(run)
    if not certifying:
        yield Finding("warn", "no-certificates", f"{run.folder} certifies nothing: no probe of its study does")
    for name, model in models.items():
        for domain in data.measured_by("certify"):
            for setting, (probe, certifier) in certifying.items():
                found = run.evidence.where(model=name, domain=domain.name, probe="certify", setting=setting)
                if not len(found):
                    message = f"{name} on {domain.name}: no certificates by {certifier!r}"
                    yield Finding("fail", "rows-missing", message)
                    continue
                where = f"{name} on {domain.name}, {certifier.title}"
                certifying_seed = probe_seed(run.study, run.record, name, probe)
                job = replace(probe.job(model, domain), seed=certifying_seed, calibration=data.training)
                certificates = certificates_in(found[0], job.classes)
                yield from _case(where, certificates, certifier, job, seed, part)
                yield from check_log(log_path(run.folder, found[0]), certificates, domain, where)


def _case(
    name: str, certificates: Certificates, certifier: Certifier, job: Job, seed: int, part: int
) -> Iterator[Finding]:
    if certificates.ids.tolist() != job.domain.ids.tolist():
        yield Finding("fail", "samples-differ", f"{name}: certificates are not of the samples of {job.domain.name}")
        return
    yield from verify(Case(name, certificates, certifier, job, seed, part))


def _hashes(run: Run, data: StudyData, models: dict[str, nn.Module]) -> Iterator[Finding]:
    known = run.record["fingerprints"]
    now = {
        "data": {domain.name: domain.fingerprint for domain in data.domains},
        "weights": {name: fingerprint(model) for name, model in models.items()},
    }
    for kind, hashes in now.items():
        changed = [name for name, value in hashes.items() if known[kind].get(name) != value]
        for name in changed:
            yield Finding(
                "fail", f"{kind}-differ", f"{name}: {kind} are not those that the run recorded; the hash differs"
            )
        if not changed:
            yield Finding("pass", f"{kind}-same", f"{kind} of {', '.join(hashes)} are those that the run recorded")
    for name, answers in run.record.get("behaviour", {}).items():
        for domain in data.measured if name in models else ():
            differs = difference(answers.get(domain.name, []), behaviour_of(models[name], domain))
            if differs:
                message = f"{name} does not answer as the model that was measured: on {domain.name}, {differs}"
                yield Finding("fail", "behaviour-differs", message)


def _files(
    files: list[StoredFile], models: dict[str, nn.Module], data: StudyData, certifying: Container[str]
) -> Iterator[Finding]:
    """Whether every file of evidence answers the question that it says, of samples as they are, as it was written."""
    faults: list[Finding] = []
    probes = {file.evidence[0].probe for file in files}
    measured = {probe: {domain.name: domain for domain in data.measured_by(probe)} for probe in probes}
    for file in files:
        where = "/".join(file.path.parts[-3:])
        faults += [
            Finding("fail", code, f"{where}: {what}")
            for code, what in _faults(file, models, measured[file.evidence[0].probe], certifying)
        ]
    yield from faults
    if not faults:
        yield Finding("pass", "evidence-same", f"{len(files)} files of evidence are as they were written")


def _faults(
    file: StoredFile, models: dict[str, nn.Module], domains: dict[str, Domain], certifying: Container[str]
) -> Iterator[tuple[str, str]]:
    first = file.evidence[0]
    unknown = first.probe == "certify" and first.setting not in certifying
    if first.model not in models or first.domain not in domains or unknown:
        yield "evidence-unexpected", "the study asks for no such rows, and a report would show them"
        return
    domain = domains[first.domain]
    hashes = fingerprint(models[first.model]), domain.fingerprint
    if (file.identity.get("weights"), file.identity.get("data")) != hashes:
        yield "evidence-of-other", "rows are of other weights or other data"
    if any(len(file.evidence.distinct(fact)) > 1 for fact in ("model", "domain", "probe")):
        yield "facts-differ", "settings of one probe are said to be of several models, domains or probes"
    ids, labels = domain.ids.tolist(), domain.labels.tolist()
    if any(one["id"].tolist() != ids or one["label"].tolist() != labels for one in file.evidence):
        yield "labels-differ", "samples or labels are not those of the data"
    elif any((one["correct"] != (one["prediction"] == one["label"])).any() for one in file.evidence):
        yield "correct-differs", "rows are called right or wrong that are not"
    if not file.untouched:
        yield "evidence-changed", "rows were changed after they were written"
