"""Train what is not trained, measure what is not measured, into the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.errors import DataError, ShiftproofError, StudyError, UsageError
from shiftproof.evidence import Evidence, EvidenceStore, slug
from shiftproof.execution import Mode, check_writable, only_one, progress_bar, read_json, write_atomically, write_json
from shiftproof.models import load_model
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.files import fingerprint
from shiftproof.perturbations.threat import Threat
from shiftproof.probes import PROBES, run_probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.probe import Probe
from shiftproof.report.gallery import contact_sheet
from shiftproof.report.requirements import Requirement
from shiftproof.rng import fresh_seed
from shiftproof.runs.data import StudyData, data_findings, load_study_data
from shiftproof.runs.environment import environment
from shiftproof.runs.examine import examine_model
from shiftproof.runs.identity import digest, resolved
from shiftproof.runs.measurable import measurable
from shiftproof.runs.models import card_of, kept_copy, model_file, train_to_file, training_findings
from shiftproof.runs.pretraining import first_alike, untrained
from shiftproof.runs.run import FORMAT, Run, sheet_path
from shiftproof.runs.seen import seen_in_training, seen_target
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import find_study
from shiftproof.training.machine import find_device
from shiftproof.types import Finding

__all__ = [
    "Models",
    "Prepared",
    "measure_models",
    "new_record",
    "prepare_study",
    "probe_seed",
    "run_study",
    "start_or_continue",
]

Models = Mapping[str, tuple[nn.Module, dict[str, Any]]]
"""Models by name, each with its record."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A study before anything is trained or measured: its data, the models that it takes as they are, its identity."""

    study: Study
    data: StudyData
    taken: Mapping[str, nn.Module]
    config: dict[str, Any]

    @property
    def seed(self) -> int | None:
        """The seed that the study names, which keys the noise too; without one it is drawn, so that no model can have
        been made for it.
        """
        return self.study.seed if "seed" in self.study.model_fields_set else None

    @property
    def default_folder(self) -> Path:
        """Where the run goes unless told; a seed that was asked for is a part of its name, one that is drawn is not."""
        named = self.config if self.seed is None else {**self.config, "noise_seed": self.seed}
        return Path("runs") / f"{slug(self.study.name)}-{digest(named)}"


def prepare_study(study: Study | str) -> Prepared:
    """Load data and the models that are not trained, and refuse what can't be measured; nothing is written."""
    study = find_study(study) if isinstance(study, str) else study
    config = resolved(study)
    as_they_are = {name: spec.model for name, spec in study.models.items() if not spec.train}
    data = load_study_data(study, cards=[card_of(choice.name) for choice in as_they_are.values()])
    taken = {
        name: load_model(choice.name, data.sources, **choice.options).eval() for name, choice in as_they_are.items()
    }
    _check_probes(study, data, taken)
    # what a name means may change: a model counts by its weights, data by its content
    for name, model in taken.items():
        config["models"][name]["weights"] = fingerprint(model)
    config["fingerprints"] = {domain.name: domain.fingerprint for domain in data.domains}
    if len(taken) == len(study.models):
        # nothing is trained: the seed keys noise alone, and is compared with the one that the run has stored
        config.pop("seed")
    return Prepared(study, data, taken, config)


def run_study(
    study: Study | str | Prepared,
    out: Path | str | None = None,
    *,
    workers: int = 1,
    device: str = "auto",
    progress: Mode = "auto",
    require: Sequence[Requirement] = (),
    radii: Sequence[float] = (),
) -> Run:
    """Train what is not trained and measure what is not measured; the same call continues a run that was killed.

    `study` is a study, the name of one, or the path of a YAML file. What is asked of the numbers (`require`), and which
    `radii` tables show, may change from call to call: the numbers do not.
    """
    prepared = study if isinstance(study, Prepared) else prepare_study(study)
    study, data, config = prepared.study, prepared.data, prepared.config
    _check_required(require, study, data)
    find_device(device)
    folder = Path(out) if out else prepared.default_folder
    check_writable(folder)
    with only_one(folder):
        record = start_or_continue(folder, new_record(study, config, data, prepared.seed), prepared.seed)
        record = {**record, **_asked_of_numbers(record, require, radii)}
        models = {
            name: _model(study, name, config, data, folder, device, progress, prepared.taken.get(name))
            for name in study.models
        }
        found = data_findings(data)
        for name, (model, card) in models.items():
            if study.models[name].train:
                found += training_findings(name, study.models[name], model, data.sources)
            found += seen_target(name, card, study.data.name, data.target)
        found += _weaknesses(prepared, progress)
        return measure_models(folder, study, record, data, models, found, workers, progress)


def _weaknesses(prepared: Prepared, progress: Mode) -> list[Finding]:
    """What weakens the attacks of a study: their options, and models of others whose gradients mislead."""
    probes = [PROBES.create(choice.name, choice.options) for choice in prepared.study.probes]
    found = [finding for probe in probes for finding in probe.findings()]
    attacks = [one for one in probes if isinstance(one, Attack) and one.smoothed is None]
    threats = [one.attack.threat for one in attacks if isinstance(one.attack.threat, Threat)]
    for name, model in prepared.taken.items() if threats else ():
        with progress_bar(f"examining {name}", 1, progress) as bar:
            said = [one for one in examine_model(model, prepared.data, threats, probes) if one.level != "pass"]
            bar.advance()
        several = len(prepared.study.models) > 1
        found += [replace(one, message=f"{name}: {one.message}") if several else one for one in said]
    return found


def measure_models(
    folder: Path,
    study: Study,
    record: dict[str, Any],
    data: StudyData,
    models: Models,
    findings: Sequence[Finding],
    workers: int,
    progress: Mode,
) -> Run:
    """Every probe of the study on every model and domain; what a killed run has done is not done again."""
    record["fingerprints"]["weights"] = {name: fingerprint(model) for name, (model, _) in models.items()}
    record["behaviour"] = _same_behaviour(folder, record, data, models)
    record["measured"] = {name: _facts(data, study, card) for name, (_, card) in models.items()}
    record["selected"] = {name: card.get("selection") for name, (_, card) in models.items()}
    record["findings"] = [asdict(finding) for finding in findings]
    write_json(folder / "run.json", record)
    for domain in data.measured:
        if len(domain.shape) == 3:
            write_atomically(sheet_path(folder, domain.name), contact_sheet(domain))
    store, training = EvidenceStore(folder / "evidence"), data.training
    evidence = [
        run_probe(
            probe,
            model,
            domain,
            store,
            model_name=name,
            seed=probe_seed(study, record, name, probe),
            workers=workers,
            progress=progress,
            calibration=training,
            facts=record["measured"][name][domain.name] | ({"sampled": "simple"} if data.is_prefix(domain) else {}),
        )
        for name, (model, _) in models.items()
        for probe in [PROBES.create(choice.name, choice.options) for choice in study.probes]
        for domain in data.measured_by(PROBES.name_of(probe))
    ]
    return Run(folder, study, record, Evidence.concat(evidence))


def probe_seed(study: Study, record: Mapping[str, Any], model: str, probe: Probe) -> int:
    """What a probe's draws are keyed by: the study's seed; for a vote under noise of a model that the run did not
    train, the run's own, which no model can have been made for.
    """
    if study.models[model].train or probe.classifier == "base":
        return study.seed
    return int(record.get("noise_seed", study.seed))


def _facts(data: StudyData, study: Study, card: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """What is known of the measured samples of each domain, of one model: how they were chosen, whether trained on."""
    found = {}
    for domain in data.domains:
        seen = seen_in_training(card, study.data.name, domain, data.part(domain.name))
        # who names a target says that training left it out; a record may know better
        stated = seen == "unknown" and data.target is domain
        found[domain.name] = {"sampled": data.sampled(domain.name), "seen_in_training": "no" if stated else seen}
    return found


def _same_behaviour(folder: Path, record: Mapping[str, Any], data: StudyData, models: Models) -> dict[str, Any]:
    """What every model answers to fixed inputs of each domain; what was recorded before must be the same."""
    known = record.get("behaviour")
    now: dict[str, Any] = {
        name: {domain.name: behaviour_of(model, domain) for domain in data.measured}
        for name, (model, _) in models.items()
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


def _asked_of_numbers(
    record: Mapping[str, Any], require: Sequence[Requirement], radii: Sequence[float]
) -> dict[str, Any]:
    """What this call asks of the numbers; one that asks for nothing takes nothing out of the report."""
    required = [one.text for one in require] or record.get("require", [])
    return {"require": required, "radii": list(radii) or record.get("radii", [])}


def _check_required(require: Sequence[Requirement], study: Study, data: StudyData) -> None:
    """Refuse what will not have been measured, before anything is."""
    if require:
        probes = [(choice.name, choice.options) for choice in study.probes]
        planned = measurable(probes, data.measured, len(data.sources.classes))
        for one in require:
            one.check(planned)


def _model(
    study: Study,
    name: str,
    config: dict[str, Any],
    data: StudyData,
    folder: Path,
    device: str,
    progress: Mode,
    taken: nn.Module | None,
) -> tuple[nn.Module, dict[str, Any]]:
    spec, path = study.models[name], model_file(folder, study, name)
    if taken is not None:
        return taken, kept_copy(taken, card_of(spec.model.name), data.sources, path)
    return train_to_file(
        spec,
        data,
        path,
        folder / "checkpoints" / f"{slug(name)}.ckpt",
        seed=study.seed,
        data=config["data"],
        extractor=_extractor(folder, study, name),
        device=device,
        progress=progress,
        label="training" if study.at_top else f"training {name}",
    )


def _check_probes(study: Study, data: StudyData, taken: Mapping[str, nn.Module]) -> None:
    """Refuse what no training would make measurable, before there is any."""
    probes = [PROBES.create(choice.name, choice.options) for choice in study.probes]
    for name, spec in study.models.items():
        model = taken[name] if name in taken else untrained(spec, data.sources).eval()
        for probe in probes:
            try:
                probe.check(model, data.measured[-1], data.training)
            except ShiftproofError as error:
                raise StudyError(f"model {name!r} can't be measured by {probe.title!r}: {error}") from error


def new_record(study: Study, config: dict[str, Any], data: StudyData, seed: int | None = None) -> dict[str, Any]:
    """What run.json says before anything is measured; without a `seed` the one of the noise is drawn now."""
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
            "limit": "a prefix of a random order of groups or samples, by hash of sample_seed and id",
        },
        "parts": {domain.name: data.part(domain.name) for domain in data.domains},
        "noise_seed": fresh_seed() if seed is None else seed,
        "fingerprints": {"data": {domain.name: domain.fingerprint for domain in data.domains}, "weights": {}},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment(),
        "later_environments": [],
    }


def start_or_continue(folder: Path, record: dict[str, Any], seed: int | None = None) -> dict[str, Any]:
    """The record of the run that is in the folder already, which must be the same one, or this one, written.

    The seed of the noise is the one that is there; a `seed` that was asked for must be the same.
    """
    if (folder / "run.json").exists():
        before = read_json(folder / "run.json", DataError)
        if (other := _differs(before, record)) is not None:
            raise UsageError(f"{folder} holds a run with {other}; choose another --out")
        if before["fingerprints"]["data"] != record["fingerprints"]["data"]:
            raise DataError(f"the data has changed since the run in {folder} was started; choose another --out")
        if before.get("hash") != record["hash"]:
            raise UsageError(f"{folder} holds a run of another study or other settings; choose another --out")
        if before.get("parts", record["parts"]) != record["parts"]:
            raise UsageError(f"{folder} holds a run that measured other parts of the data; choose another --out")
        if seed is not None and _has_own_noise(record) and before.get("noise_seed", seed) != seed:
            raise UsageError(
                f"{folder} holds a run whose noise is keyed by seed {before['noise_seed']}, not by {seed}, which is "
                "another seed; choose another --out"
            )
        # what was computed keeps the record of what it was computed with
        known = [before["environment"], *before["later_environments"]]
        later = [] if record["environment"] in known else [record["environment"]]
        return {**before, "later_environments": [*before["later_environments"], *later]}
    write_json(folder / "run.json", record)
    return record


def _differs(before: Mapping[str, Any], record: Mapping[str, Any]) -> str | None:
    """What another run was asked, in words; None if that is the same, or differs in the data alone."""
    one, other = (_flat(json.loads(json.dumps(run.get("config", {})))) for run in (before, record))
    changed = sorted({key for key in {*one, *other} if one.get(key) != other.get(key)} - {"fingerprints"})
    return None if not changed else f"other {', '.join(changed)}"


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """What was asked of a run of one model, its objective and recipe beside its data and probes."""
    models = config.pop("models", {})
    return {**config, **next(iter(models.values()))} if len(models) == 1 else {**config, "models": models}


def _has_own_noise(record: Mapping[str, Any]) -> bool:
    """Whether any model was not trained by the run."""
    return any(not config.get("train", True) for config in record["config"]["models"].values())


def _extractor(folder: Path, study: Study, name: str) -> tuple[Path, Path] | None:
    """Weights and checkpoint of what a model is pre-trained to."""
    if study.models[name].pretrain is None:
        return None
    path = model_file(folder, study, first_alike(study, name))
    stem = f"{path.stem}-pretrained"
    return path.with_name(f"{stem}{path.suffix}"), folder / "checkpoints" / f"{stem}.ckpt"
