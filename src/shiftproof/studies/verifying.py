"""Everything that a finished run certifies, doubted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.certification import Certificates, Certifier
from shiftproof.certification.certifier import Job, Memory
from shiftproof.certification.checks import check_classifier
from shiftproof.domains import Domain, Domains, load_domains
from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import EvidenceStore, slug
from shiftproof.evidence.certificates import certificates_in
from shiftproof.evidence.store import StoredFile
from shiftproof.execution import read_json
from shiftproof.models import load_model
from shiftproof.models.files import fingerprint
from shiftproof.probes import PROBES
from shiftproof.probes.certify import Certify, as_certifier
from shiftproof.probes.sandwich import sandwich_findings
from shiftproof.probes.verify import Case, verify
from shiftproof.studies.certifying import calibration_pool, places
from shiftproof.studies.data import StudyData, load_study_data
from shiftproof.studies.jobs import load_trained
from shiftproof.studies.run import Run, open_run
from shiftproof.types import Finding

__all__ = ["verify_folder"]


def verify_folder(folder: Path, *, seed: int, part: int = 24) -> Iterator[Finding]:
    """Findings on the certificates in the folder of a study's run, or of `shiftproof certify`, as they are made.

    `part` certificates of every model, domain and setting are asked again and attacked.
    """
    if (folder / "run.json").is_file():
        yield from _of_run(open_run(folder), seed, part)
    elif (folder / "certify.json").is_file():
        yield from _of_certificates(folder, seed, part)
    else:
        raise DataError(
            f"{folder} is neither a run nor what shiftproof certify writes: it has no run.json, certify.json"
        )


def _of_run(run: Run, seed: int, part: int) -> Iterator[Finding]:
    data = load_study_data(run.study)
    models = {name: load_trained(spec, data.sources, run.folder, name) for name, spec in run.study.models.items()}
    yield from _hashes(run, data, models)
    files = list(EvidenceStore(run.folder / "evidence").files())
    yield from _files(files, models, {domain.name: domain for domain in data.measured})
    yield from sandwich_findings(run.evidence)
    certifying = {
        repr(probe): probe
        for choice in run.study.probes
        if isinstance(probe := PROBES.create(choice.name, choice.options), Certify)
    }
    if not certifying:
        yield Finding("warn", "no-certificates", f"{run.folder} certifies nothing: no probe of its study does")
    for name, model in models.items():
        for domain in data.measured:
            for setting, probe in certifying.items():
                rows = run.evidence.where(model=name, domain=domain.name, probe="certify", setting=setting)
                if not len(rows):
                    message = f"{name} on {domain.name}: no certificates by {probe.certifier!r}"
                    yield Finding("fail", "rows-missing", message)
                    continue
                where = f"{name} on {domain.name}, {probe.certifier.title}"
                job = replace(probe.job(model, domain), seed=run.study.seed, calibration=data.training)
                yield from _case(where, certificates_in(rows, job.classes), probe.certifier, job, seed, part)


def _of_certificates(folder: Path, seed: int, part: int) -> Iterator[Finding]:
    record = read_json(folder / "certify.json", DataError)
    source, asked = record.get("source") or {}, record.get("asked") or {}
    if "settings" not in source:
        raise UsageError(f"{folder} does not say which model and data its certificates are of; certify again")
    domains = load_domains(source["data"], **source["options"]["data"])
    model = load_model(source["model"], domains, **source["options"]["model"]).eval()
    if fingerprint(model) != asked["model"]:
        yield Finding(
            "fail", "weights-differ", f"{source['model']} is not the model that was certified: its hash differs"
        )
    names = source["domain"].split(",") if source["domain"] else None
    pool = calibration_pool(
        domains, source["calibration"].split(",") if source["calibration"] else None, source["model"]
    )
    for place in places(domains, names, source["model"], source["limit"]):
        domain = place.domain
        if asked["data"].get(domain.name) != domain.fingerprint:
            yield Finding("fail", "data-differs", f"{domain.name} is not the data that was certified: its hash differs")
            continue
        for setting in source["settings"]:
            certifier = as_certifier(setting)
            path = folder / "certificates" / f"{slug(domain.name)}-{slug(certifier.title)}.parquet"
            job = _job(model, domain, source, asked, pool)
            yield from _case(f"{domain.name}, {certifier.title}", Certificates.load(path), certifier, job, seed, part)


def _job(model: nn.Module, domain: Domain, source: dict[str, Any], asked: dict[str, Any], pool: Domains | None) -> Job:
    classes = check_classifier(model, domain)
    job = Job(model, domain, classes, source["seed"], Memory(), 1, asked["precision"], asked["backend"], "off")
    return replace(job, calibration=pool)


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


def _files(files: list[StoredFile], models: dict[str, nn.Module], domains: dict[str, Domain]) -> Iterator[Finding]:
    """Whether every file of evidence answers the question that it says, and is as it was written."""
    touched, odd, old = [], [], []
    for file in files:
        model, domain = str(file.rows["model"][0]), str(file.rows["domain"][0])
        if model not in models or domain not in domains:
            continue
        where = f"{model}/{domain}/{file.path.name}"
        same = (fingerprint(models[model]), domains[domain].fingerprint)
        if (file.identity.get("weights"), file.identity.get("data")) != same:
            odd.append(where)
        if file.untouched is None:
            old.append(where)
        elif not file.untouched:
            touched.append(where)
    for where in odd:
        yield Finding("fail", "evidence-of-other", f"{where}: rows are of other weights or other data")
    for where in touched:
        yield Finding("fail", "evidence-changed", f"{where}: rows were changed after they were written")
    if old:
        yield Finding("warn", "evidence-unsealed", f"{len(old)} files are from before a hash of their rows was kept")
    if not odd and not touched:
        yield Finding("pass", "evidence-same", f"{len(files)} files of evidence are as they were written")
