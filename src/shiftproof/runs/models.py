"""From names to a trained model on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.domains import Domains
from shiftproof.errors import StorageError
from shiftproof.evidence import slug
from shiftproof.execution import Mode
from shiftproof.models import load_model, read_card, save_model
from shiftproof.models.files import file_hash, load_weights, read_weights
from shiftproof.models.load import model_path, starts_by_chance
from shiftproof.models.records import PHASE, record_of
from shiftproof.objectives.objective import Outcome
from shiftproof.runs.data import StudyData
from shiftproof.runs.environment import environment
from shiftproof.runs.identity import digest, model_identity
from shiftproof.runs.model_spec import Member, ModelSpec
from shiftproof.runs.names import to_plain_targets
from shiftproof.runs.pretraining import first_phase, new_head, phase_data, untrained
from shiftproof.runs.sources import ModelSource
from shiftproof.runs.spec import Study
from shiftproof.training import Fit, train
from shiftproof.types import Finding

__all__ = [
    "check_cards",
    "hash_cards",
    "kept_copy",
    "load_trained",
    "model_file",
    "train_to_file",
    "training_findings",
]


def train_to_file(
    spec: ModelSpec,
    study_data: StudyData,
    path: Path,
    checkpoint: Path,
    *,
    seed: int,
    data: dict[str, Any],
    extractor: tuple[Path, Path] | None = None,
    device: str = "auto",
    processes: int = 1,
    progress: Mode = "auto",
    label: str = "training",
) -> tuple[nn.Module, dict[str, Any]]:
    """Train and save a model, or load it if the same one is there already; returns it with its JSON record.

    `extractor` is where weights and checkpoint of a first phase go, for a model that has one.
    """
    sources, targets = study_data.sources, sorted(domain.name for domain in study_data.targets)
    before = None if spec.pretrain is None else phase_data(spec.pretrain)
    request = {
        **model_identity(spec, seed),
        "data": data,
        "sources": sorted(sources.names),
        "target": to_plain_targets(targets),
        "fingerprints": {domain.name: domain.fingerprint for domain in sources},
        "pretrained on": None if before is None else {domain.name: domain.fingerprint for domain in before.sources},
    }
    if path.with_suffix(".json").exists():
        card = read_card(path)
        _check_same(card, request, path)
        checkpoint.unlink(missing_ok=True)
        return _reload(spec, sources, path), card
    running: dict[str, Any] = {"device": device, "processes": processes, "progress": progress}
    start = spec.model
    if spec.pretrain is not None and before is not None:
        assert extractor is not None
        # what does not fit is noticed before the first phase, not after it
        untrained(spec, sources, before.sources)
        phase, data = first_phase(spec, spec.pretrain), request["pretrain"]["data"]
        train_to_file(phase, before, *extractor, seed=seed, data=data, label=f"pre-{label}", **running)
        start = ModelSource(f"file:{extractor[0]}", new_head(spec.model))
    fit = train(
        start.load_to_train(sources, request["seed"]),
        sources,
        spec.objective,
        seed=request["seed"],
        recipe=spec.recipe,
        selection=spec.selection,
        checkpoint=checkpoint,
        label=label,
        **running,
    )
    # a module was trained in place, and knows what it was before
    known = record_of(fit.model).get("initial")
    initial = known if start.module is not None else _initial(start, None if before is None else path.parent)
    card = {**_card(fit, sources, request), "initial": initial, "request": digest(request)}
    save_model(fit.model.cpu(), path, card)
    checkpoint.unlink(missing_ok=True)
    # measured is what the file holds, so that a resumed run measures the same
    return _reload(spec, sources, path), read_card(path)


def _check_same(card: dict[str, Any], request: dict[str, Any], path: Path) -> None:
    if card.get("request") == digest(request):
        return
    known = ("objective", "recipe", "seed", "data", "sources", "target", "fingerprints")
    changed = [key for key in known if card.get(key) != json.loads(json.dumps(request[key]))] or [
        "network, selection or first phase"
    ]
    message = f"{path} holds a model that was trained otherwise (another {', '.join(changed)})"
    raise StorageError(f"{message}: choose another --out, or remove it")


def training_findings(
    name: str, spec: ModelSpec, model: nn.Module, sources: Domains, card: Mapping[str, Any] | None = None
) -> list[Finding]:
    """What the objective has to say of the model that it gave, what was noted in training, and whether a head stands on
    an encoder by chance.
    """
    outcome = Outcome(model, sources.shape, spec.recipe, sources.names)
    said = [*spec.objective.findings(outcome), *(Finding(**one) for one in (card or {}).get("noted", []))]
    if spec.recipe.part == "head" and spec.pretrain is None and starts_by_chance(spec.model.name, spec.model.options):
        said.append(Finding("warn", "untrained-encoder", "only the head was trained, on an encoder of random weights"))
    return [replace(finding, message=f"{name}: {finding.message}") for finding in said]


def kept_copy(model: nn.Module, card: dict[str, Any], sources: Domains, path: Path) -> dict[str, Any]:
    """Write a model as it is, unless it is there already; returns its record."""
    if not path.with_suffix(".json").exists():
        own = {key: value for key, value in card.items() if key not in ("format", "architecture", "weights")}
        save_model(model, path, {"classes": list(sources.classes), **own})
    return read_card(path)


def load_trained(study: Study, sources: Domains, folder: Path, member: Member) -> nn.Module:
    """A model of a run, as it is on disk."""
    return _reload(study.models[member.name], sources, model_file(folder, study, member))


def model_file(folder: Path, study: Study, member: Member) -> Path:
    """Where a run keeps a model."""
    return folder / ("model.safetensors" if study.at_top else f"models/{slug(member.key)}.safetensors")


def hash_cards(folder: Path) -> dict[str, str]:
    """Hashes of the records beside a run's models, and of what models were pre-trained to, by path."""
    beside = ["model.json", "model-pretrained.*", "models/*.json", "models/*-pretrained.safetensors"]
    paths = sorted({path for pattern in beside for path in folder.glob(pattern)})
    return {path.relative_to(folder).as_posix(): file_hash(path) for path in paths}


def check_cards(folder: Path, known: Mapping[str, Any]) -> None:
    """Refuse to continue a run if a record beside a model was edited; one that is gone is written again."""
    now, before = hash_cards(folder), known.get("cards", {})
    if changed := [name for name, value in now.items() if before.get(name, value) != value]:
        raise StorageError(
            f"{folder / changed[0]} was changed after it was written; choose another --out, or remove the folder to "
            "measure anew"
        )


def _reload(spec: ModelSpec, sources: Domains, path: Path) -> nn.Module:
    if not spec.model.options.get("architecture", spec.model.name).startswith("python:"):
        return load_model(f"file:{path}", sources)
    # code that the user named in this very study may be run again; code that a file names may not
    model = spec.model.load(sources)
    load_weights(model, read_weights(path), path)
    return model.eval()


def _initial(source: ModelSource, beside: Path | None) -> dict[str, Any] | None:
    """Where a model that started from a file comes from: the file, seen from `beside`, what it was trained on."""
    if not source.name.startswith("file:"):
        return None
    card = source.card
    record = {key: card.get(key) for key in PHASE}
    name = source.name if beside is None else f"file:{os.path.relpath(model_path(source.name), beside)}"
    return {**source.identity(), "name": name, **record}


def _card(fit: Fit, sources: Domains, request: dict[str, Any]) -> dict[str, Any]:
    return {
        "classes": list(sources.classes),
        "data": request["data"],
        "sources": request["sources"],
        "target": request["target"],
        "objective": request["objective"],
        "recipe": request["recipe"],
        "selection": asdict(fit.selected),
        "stopped": asdict(fit.stopped),
        "seed": fit.seed,
        "threads": fit.threads,
        "processes": fit.processes,
        **({"noted": [asdict(finding) for finding in fit.findings]} if fit.findings else {}),
        "fingerprints": request["fingerprints"],
        "history": fit.history,
        "seconds": round(fit.seconds, 2),
        "environment": environment(),
    }
