"""From names to a trained model on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from shiftproof.catalogue import Catalogue, options_of
from shiftproof.domains import DOMAINS, Domain, Domains, held_out, load_domains
from shiftproof.errors import StorageError, UsageError
from shiftproof.execution import Mode
from shiftproof.models import MODELS, load_model, read_card, save_model
from shiftproof.models.files import file_hash
from shiftproof.models.load import model_path
from shiftproof.objectives import OBJECTIVES, Objective, Recipe
from shiftproof.studies.environment import environment
from shiftproof.studies.schema import Choice, ModelSpec, Study
from shiftproof.training import Fit, train

__all__ = ["StudyData", "digest", "load_study_data", "resolved", "train_to_file"]


@dataclass(frozen=True, eq=False)
class StudyData:
    """The domains that a study trains on, and the one that it leaves out, if any."""

    sources: Domains
    target: Domain | None

    @property
    def domains(self) -> list[Domain]:
        """Sources, then the target."""
        return [*self.sources, *([] if self.target is None else [self.target])]

    @property
    def measured(self) -> list[Domain]:
        """What probes look at: the held-out part of every source, then the whole target."""
        return [*map(held_out, self.sources), *([] if self.target is None else [self.target])]


def load_study_data(study: Study) -> StudyData:
    """Without `source`, all domains but the target are sources; without `target`, none is left out."""
    domains = load_domains(study.data.name, **study.data.options)
    target = None if study.target is None else domains[study.target]
    if study.source is not None:
        if study.target in study.source:
            raise UsageError(f"{study.target!r} is both source and target; a target is what training leaves out")
        sources = domains.select(study.source)
    else:
        sources = domains if study.target is None else domains.leave_out(study.target)[0]
    data = StudyData(sources, target)
    for domain in data.domains:
        domain.inputs.prepare()
    return data


def resolved(study: Study) -> dict[str, Any]:
    """Everything asked for that can change a number, with all defaults written out."""
    return {
        "data": _choice(DOMAINS, study.data) if study.data.name in DOMAINS else study.data.model_dump(),
        "source": None if study.source is None else sorted(study.source),
        "target": study.target,
        "seed": study.seed,
        "models": {name: resolved_model(spec, study.seed) for name, spec in study.models.items()},
        "probes": [probe.model_dump() for probe in study.probes],
    }


def resolved_model(spec: ModelSpec, seed: int) -> dict[str, Any]:
    """One model of a study, with all defaults written out."""
    objective, recipe = _objective(spec)
    return {
        "model": _choice(MODELS, spec.model) if spec.model.name in MODELS else _given(spec.model),
        "objective": {"name": spec.objective.name, **_fields(objective)},
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
                f"{', '.join(card.get('sources', []))}, seed {card.get('seed')}); choose another --out, or remove it"
            )
        return load_model(f"file:{path}", sources), card
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
    save_model(fit.model.cpu(), path, {**_card(fit, sources, target, request), "request": digest(request)})
    return fit.model, read_card(path)


def _card(fit: Fit, sources: Domains, target: Domain | None, request: dict[str, Any]) -> dict[str, Any]:
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


def _choice(catalogue: Catalogue[Any], choice: Choice) -> dict[str, Any]:
    return {"name": choice.name, **catalogue[choice.name].options, **choice.options}


def _given(choice: Choice) -> dict[str, Any]:
    """A model that the user brings; a file counts by its content: other weights under that name are another model."""
    record = choice.model_dump()
    if choice.name.startswith("file:"):
        record["sha256"] = file_hash(model_path(choice.name))
    return record


def _fields(objective: Objective) -> dict[str, Any]:
    return {name: getattr(objective, name) for name in options_of(type(objective))}
