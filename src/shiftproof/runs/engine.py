"""Train what is not trained, measure what is not measured, into the folder of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, EvidenceStore, slug
from shiftproof.execution import Mode, check_writable, only_one, progress_bar, write_atomically, write_json
from shiftproof.models.behaviour import behaviour_of, difference
from shiftproof.models.files import fingerprint
from shiftproof.perturbations.threat import Threat
from shiftproof.probes import PROBES, run_probe
from shiftproof.probes.attack import Attack
from shiftproof.probes.probe import Probe
from shiftproof.report.gallery import contact_sheet
from shiftproof.report.requirements import Requirement
from shiftproof.runs.data import StudyData, data_findings
from shiftproof.runs.examine import examine_model
from shiftproof.runs.measurable import measurable
from shiftproof.runs.models import card_of, kept_copy, model_file, train_to_file, training_findings
from shiftproof.runs.prepare import Prepared, prepare_study
from shiftproof.runs.pretraining import first_alike
from shiftproof.runs.record import new_record, start_or_continue
from shiftproof.runs.run import Run, sheet_path
from shiftproof.runs.seen import seen_in_training, seen_target
from shiftproof.runs.spec import Study
from shiftproof.runs.study_files import validated
from shiftproof.training.machine import find_device
from shiftproof.types import Finding

__all__ = ["Models", "measure_models", "probe_seed", "run_study"]

Models = Mapping[str, tuple[nn.Module, dict[str, Any]]]
"""Models by name, each with its record."""


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
        # what was asked first is what is measured and shown, however it is written the second time
        study = validated(record["study"], str(folder / "run.json"))
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
        # a run that is continued has examined its models: that they answer as before is checked below
        if "examined" not in record:
            record["examined"] = [asdict(one) for one in _weaknesses(prepared, progress)]
        found += [Finding(**one) for one in record["examined"]]
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


def _extractor(folder: Path, study: Study, name: str) -> tuple[Path, Path] | None:
    """Weights and checkpoint of what a model is pre-trained to."""
    if study.models[name].pretrain is None:
        return None
    path = model_file(folder, study, first_alike(study, name))
    stem = f"{path.stem}-pretrained"
    return path.with_name(f"{stem}{path.suffix}"), folder / "checkpoints" / f"{stem}.ckpt"
