"""A run: a study's folder on disk, and the runner that fills it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from shiftproof.catalogue import options_of
from shiftproof.errors import DataError, ShiftproofError, StudyError, UsageError
from shiftproof.evidence import Evidence, EvidenceStore, slug
from shiftproof.execution import Mode, check_writable, only_one, read_json, write_atomically, write_json
from shiftproof.models.files import fingerprint
from shiftproof.models.heads import Head
from shiftproof.probes import PROBES, run_probe
from shiftproof.probes.probe import check_probe
from shiftproof.report import Report, write_report
from shiftproof.report.gallery import contact_sheet
from shiftproof.report.page import FORMATS, render_page
from shiftproof.studies.data import StudyData, data_findings, load_study_data
from shiftproof.studies.environment import environment
from shiftproof.studies.files import find_study, validated
from shiftproof.studies.jobs import model_file, train_to_file, training_findings
from shiftproof.studies.pretraining import first_alike, untrained
from shiftproof.studies.resolved import digest, resolved
from shiftproof.studies.schema import Study
from shiftproof.studies.seen import seen_target
from shiftproof.types import Finding

__all__ = ["Run", "open_run", "run_study"]

FORMAT = "shiftproof-run/1"


@dataclass(frozen=True, eq=False)
class Run:
    """A study that has been run: its folder, its study and its evidence."""

    folder: Path
    study: Study
    record: dict[str, Any]
    evidence: Evidence

    def report(self, path: Path | str | None = None) -> Path:
        """Write the report as one HTML page, to `path` or into the run's folder; returns where."""
        where = self.folder / "report.html" if path is None else Path(path)
        write_atomically(where, render_page(self.content()).encode())
        return where

    def export(self, formats: Sequence[str] = FORMATS, folder: Path | None = None) -> list[Path]:
        """Write the page, tables and figures below `folder` or the run's own; returns their paths, the page first."""
        return write_report(self.content(), folder or self.folder, formats)

    @property
    def findings(self) -> list[Finding]:
        """What a reader should take away."""
        content = self.content()
        return content.findings(content.table())

    def content(self) -> Report:
        """What the report says."""
        study, record = self.study, self.record
        names = [*record["sources"], *([study.target] if study.target else [])]
        packages = ", ".join(f"{name} {version}" for name, version in record["environment"]["packages"].items())
        machine = "{system}, {cores} cores, {threads} threads, accelerator {accelerator}".format(
            **record["environment"]
        )
        facts = {
            "study": f"{study.name}, seed {study.seed}, hash {record['hash']}",
            "data": f"{study.data.name}; trained on {', '.join(record['sources'])}; left out: {study.target or '-'}",
            **{
                f"model {name}": _describe(config, record["selected"][name])
                for name, config in record["config"]["models"].items()
            },
            "split": record["protocol"]["split"],
            "computed with": f"Python {record['environment']['python']}, {packages}",
            "on": machine,
        }
        sheets = {name: _sheet(self.folder, name) for name in names}
        return Report(
            title=study.title or study.name,
            about=study.about,
            models={name: spec.about for name, spec in study.models.items()},
            sources=tuple(record["sources"]),
            target=study.target,
            classes=tuple(record["classes"]),
            evidence=self.evidence,
            sheets={name: path for name, path in sheets.items() if path.is_file()},
            facts=facts,
            labels=record["labels"],
            notes=[Finding(**finding) for finding in record["findings"]],
            seed=study.seed,
        )


def run_study(
    study: Study | str,
    out: Path | str | None = None,
    *,
    workers: int = 1,
    device: str = "auto",
    progress: Mode = "auto",
) -> Run:
    """Train what is not trained and measure what is not measured; the same call continues a run that was killed.

    `study` is a study, the name of one, or the path of a YAML file.
    """
    study = find_study(study) if isinstance(study, str) else study
    config = resolved(study)
    folder = Path(out) if out else Path("runs") / f"{slug(study.name)}-{digest(config)}"
    check_writable(folder)
    data = load_study_data(study)
    _check_probes(study, data)
    with only_one(folder):
        record = _start_or_continue(folder, _record(study, config, data))
        for domain in data.domains:
            write_atomically(_sheet(folder, domain.name), contact_sheet(domain))
        trained = {
            name: train_to_file(
                spec,
                data,
                model_file(folder, name),
                folder / "checkpoints" / f"{slug(name)}.ckpt",
                seed=study.seed,
                data=config["data"],
                extractor=_extractor(folder, study, name),
                device=device,
                progress=progress,
                label=f"training {name}",
            )
            for name, spec in study.models.items()
        }
        record["fingerprints"]["weights"] = {name: fingerprint(model) for name, (model, _) in trained.items()}
        record["selected"] = {name: card["selection"] for name, (_, card) in trained.items()}
        found = data_findings(data)
        for name, (model, card) in trained.items():
            found += training_findings(name, study.models[name], model, data.sources)
            found += seen_target(name, card, study.target)
        record["findings"] = [asdict(finding) for finding in found]
        write_json(folder / "run.json", record)
        store = EvidenceStore(folder / "evidence")
        evidence = [
            run_probe(
                PROBES.create(choice.name, choice.options),
                model,
                domain,
                store,
                model_name=name,
                seed=study.seed,
                workers=workers,
                progress=progress,
                calibration=data.training,
            )
            for name, (model, _) in trained.items()
            for choice in study.probes
            for domain in data.measured
        ]
    return Run(folder, study, record, Evidence.of(evidence))


def _check_probes(study: Study, data: StudyData) -> None:
    """Refuse what no training would make measurable, before there is any."""
    probes = [PROBES.create(choice.name, choice.options) for choice in study.probes]
    for name, spec in study.models.items():
        model = untrained(spec, data.sources).eval()
        for probe in probes:
            try:
                check_probe(probe, model, data.measured[-1], data.training)
            except ShiftproofError as error:
                what = getattr(probe, "title", PROBES.name_of(probe))
                raise StudyError(f"model {name!r} can't be measured by {what!r}: {error}") from error


def open_run(folder: Path | str) -> Run:
    """A run from its folder; nothing is loaded but the record and the evidence."""
    folder = Path(folder)
    record = read_json(folder / "run.json", DataError)
    if record.get("format") != FORMAT:
        raise DataError(f"{folder} does not hold a shiftproof run")
    study = validated(record["study"], str(folder / "run.json"))
    stored = EvidenceStore(folder / "evidence").read()
    evidence = Evidence.of([stored.where(model=name) for name in study.models])
    domains = (*record["sources"], *([study.target] if study.target else []))
    expected = {(m, d, probe.name) for m in study.models for d in domains for probe in study.probes}
    columns = [evidence[name].tolist() if len(evidence) else [] for name in ("model", "domain", "probe")]
    found = set(zip(*columns, strict=True))
    if expected - found:
        raise UsageError(f"the run in {folder} is not finished: run the same study again to complete it")
    return Run(folder, study, record, evidence)


def _record(study: Study, config: dict[str, Any], data: StudyData) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "hash": digest(config),
        "study": study.model_dump(mode="json", exclude_defaults=True),
        "config": config,
        "sources": list(data.sources.names),
        "classes": list(data.sources.classes),
        "labels": {domain.name: domain.class_counts for domain in data.domains},
        "selected": {},
        "findings": [],
        "protocol": {
            "split": "by hash of group or sample id, 20 % validation",
            "source rows": "held out: test rows where the data set has them, else the validation part",
            "target rows": "all",
        },
        "fingerprints": {"data": {domain.name: domain.fingerprint for domain in data.domains}, "weights": {}},
        "environment": environment(),
        "later_environments": [],
    }


def _start_or_continue(folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    if (folder / "run.json").exists():
        before = read_json(folder / "run.json", DataError)
        if before.get("hash") != record["hash"]:
            raise UsageError(f"{folder} holds a run of another study or other settings; choose another --out")
        if before["fingerprints"]["data"] != record["fingerprints"]["data"]:
            raise DataError(f"the data has changed since the run in {folder} was started; choose another --out")
        # what was computed keeps the record of what it was computed with
        known = [before["environment"], *before["later_environments"]]
        later = [] if record["environment"] in known else [record["environment"]]
        return {**before, "later_environments": [*before["later_environments"], *later]}
    write_json(folder / "run.json", record)
    return record


def _extractor(folder: Path, study: Study, name: str) -> tuple[Path, Path] | None:
    """Weights and checkpoint of what a model is pre-trained to."""
    if study.models[name].pretrain is None:
        return None
    path = model_file(folder, first_alike(study, name))
    stem = f"{path.stem}-pretrained"
    return path.with_name(f"{stem}{path.suffix}"), folder / "checkpoints" / f"{stem}.ckpt"


def _sheet(folder: Path, domain: str) -> Path:
    return folder / "figures" / f"samples-{slug(domain)}.png"


def _describe(config: dict[str, Any], selected: dict[str, Any]) -> str:
    usual = options_of(Head)
    options = {k: v for k, v in config["model"].items() if k != "name" and (k not in usual or v != usual[k])}
    network = ", ".join([config["model"]["name"], *(f"{k}={v}" for k, v in options.items())])
    first = config.get("pretrain")
    before = f"; pre-trained on {first['data']['name']}: {_describe_training(first)}" if first else ""
    return f"{network}{before}; {_describe_training(config)}; kept step {selected['step']} by {selected['rule']}"


def _describe_training(config: dict[str, Any]) -> str:
    recipe = config["recipe"]
    part = " of the head alone" if recipe.get("part") == "head" else ""
    return (
        f"{config['objective']['name']}, {recipe['optimiser']} lr {recipe['lr']:g}, {recipe['steps']} steps{part} "
        f"of {recipe['batch']} samples a domain"
    )
