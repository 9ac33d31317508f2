"""From names to a trained model on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.catalogue import plain_options
from shiftproof.domains import Domains
from shiftproof.domains.registry import data_set
from shiftproof.errors import StorageError
from shiftproof.evidence import slug
from shiftproof.execution import Mode
from shiftproof.models import MODELS, load_model, read_card, save_model
from shiftproof.models.architecture import split_options
from shiftproof.models.files import file_hash
from shiftproof.models.load import model_path
from shiftproof.objectives import OBJECTIVES, Objective, Recipe
from shiftproof.probes import PROBES
from shiftproof.studies.data import StudyData
from shiftproof.studies.environment import environment
from shiftproof.studies.schema import Choice, ModelSpec, Study
from shiftproof.training import Fit, train
from shiftproof.types import Finding

__all__ = ["digest", "load_trained", "model_file", "resolved", "seen_target", "train_to_file"]


def resolved(study: Study) -> dict[str, Any]:
    """Everything asked for that can change a number, with all defaults written out."""
    return {
        "data": _data(study.data),
        "source": None if study.source is None else sorted(study.source),
        "target": study.target,
        "seed": study.seed,
        "models": {name: resolved_model(spec, study.seed) for name, spec in study.models.items()},
        "probes": [{"name": p.name, **plain_options(PROBES.create(p.name, p.options))} for p in study.probes],
    }


def resolved_model(spec: ModelSpec, seed: int) -> dict[str, Any]:
    """One model of a study, with all defaults written out."""
    objective, recipe = _objective(spec)
    return {
        "model": _network(spec.model) if spec.model.name in MODELS else _given(spec.model),
        "objective": {"name": spec.objective.name, **plain_options(objective)},
        "recipe": asdict(recipe),
        "selection": spec.selection or objective.selection,
        "seed": seed if spec.seed is None else spec.seed,
    }


def digest(value: Mapping[str, Any], length: int = 10) -> str:
    """A short hash of a JSON value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def train_to_file(
    spec: ModelSpec,
    study_data: StudyData,
    path: Path,
    checkpoint: Path,
    *,
    seed: int,
    data: dict[str, Any],
    device: str = "auto",
    progress: Mode = "auto",
    label: str = "training",
) -> tuple[nn.Module, dict[str, Any]]:
    """Train and save a model, or load it if the same one is there already; returns it with its JSON record."""
    sources, target = study_data.sources, study_data.target
    request = {
        **resolved_model(spec, seed),
        "data": data,
        "sources": sorted(sources.names),
        "target": None if target is None else target.name,
        "fingerprints": {domain.name: domain.fingerprint for domain in sources},
    }
    if path.with_suffix(".json").exists():
        card = read_card(path)
        if card.get("request") != digest(request):
            raise StorageError(
                f"{path} holds a model that was trained otherwise ({card.get('objective', {}).get('name')} on "
                f"{', '.join(card.get('sources', []))}, seed {card.get('seed')}); choose another --out, "
                f"or remove it and {checkpoint.name}"
            )
        return _reload(spec, sources, path), card
    chosen_seed = seed if spec.seed is None else spec.seed
    model = load_model(spec.model.name, sources, seed=chosen_seed, **spec.model.options)
    objective, recipe = _objective(spec)
    fit = train(
        model,
        sources,
        objective,
        seed=chosen_seed,
        recipe=recipe,
        selection=spec.selection,
        checkpoint=checkpoint,
        device=device,
        progress=progress,
        label=label,
    )
    card = {**_card(fit, sources, request), "initial": _initial(spec.model), "request": digest(request)}
    save_model(fit.model.cpu(), path, card)
    # measured is what the file holds, so that a resumed run measures the same
    return _reload(spec, sources, path), read_card(path)


def seen_domains(card: dict[str, Any]) -> set[str]:
    """Domains that a model was trained on, or the one that it started from, on the same data set."""
    initial = card.get("initial") or {}
    return {*card.get("sources", []), *(initial.get("seen", []) if initial.get("data") == card.get("data") else [])}


def seen_target(name: str, card: dict[str, Any], target: str | None) -> list[Finding]:
    """Whether a model, or the one that it started from, was trained on the target."""
    if target not in seen_domains(card):
        return []
    message = f"{name} started from a model that was trained on {target}, which is not unseen then"
    return [Finding("warn", "target-seen", message)]


def load_trained(spec: ModelSpec, sources: Domains, folder: Path, name: str) -> nn.Module:
    """The model called `name` of a run, as it is on disk."""
    return _reload(spec, sources, model_file(folder, name))


def model_file(folder: Path, name: str) -> Path:
    """Where a run keeps a model."""
    return folder / "models" / f"{slug(name)}.safetensors"


def _reload(spec: ModelSpec, sources: Domains, path: Path) -> nn.Module:
    # code that the user named in this very study may be run again; code that a file names may not
    named = spec.model.options.get("architecture", spec.model.name)
    options = {"architecture": named} if named.startswith("python:") else {}
    return load_model(f"file:{path}", sources, **options)


def _initial(choice: Choice) -> dict[str, Any] | None:
    """Where a model that started from a file comes from: the file, and the domains that it has seen."""
    if not choice.name.startswith("file:"):
        return None
    path = model_path(choice.name)
    card = read_card(path) if path.with_suffix(".json").is_file() else {}
    return {**_given(choice), "data": card.get("data"), "seen": sorted(seen_domains(card))}


def _card(fit: Fit, sources: Domains, request: dict[str, Any]) -> dict[str, Any]:
    return {
        "classes": list(sources.classes),
        "data": request["data"],
        "sources": request["sources"],
        "target": request["target"],
        "objective": request["objective"],
        "recipe": request["recipe"],
        "selection": asdict(fit.selected),
        "seed": fit.seed,
        "threads": fit.threads,
        "fingerprints": request["fingerprints"],
        "history": fit.history,
        "seconds": round(fit.seconds, 2),
        "environment": environment(),
    }


def _objective(spec: ModelSpec) -> tuple[Objective, Recipe]:
    objective = OBJECTIVES.create(spec.objective.name, spec.objective.options)
    return objective, objective.recipe.override(spec.training)


def _data(choice: Choice) -> dict[str, Any]:
    chosen = data_set(choice.name, choice.options)
    return {"name": choice.name, **plain_options(chosen)}


def _network(choice: Choice) -> dict[str, Any]:
    front, own = split_options(choice.name, choice.options)
    return {"name": choice.name, **MODELS[choice.name].options, **own, **asdict(front)}


def _given(choice: Choice) -> dict[str, Any]:
    """A model that the user brings; a file counts by its content: other weights under that name are another model."""
    record = choice.model_dump()
    if choice.name.startswith("file:"):
        record["sha256"] = file_hash(model_path(choice.name))
    return record
