"""What a study asks for, with all defaults written out, and its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from shiftproof.catalogue import options_of, to_plain
from shiftproof.domains.registry import data_set
from shiftproof.models import MODELS
from shiftproof.models.files import file_hash
from shiftproof.models.load import model_path
from shiftproof.models.networks.architecture import split_options
from shiftproof.objectives import OBJECTIVES, Objective, Recipe
from shiftproof.probes import PROBES
from shiftproof.runs.pretraining import first_phase
from shiftproof.runs.spec import GIVEN, Choice, ModelSpec, Study

__all__ = ["digest", "given", "objective_of", "resolved", "resolved_model", "resolved_probes"]


def resolved(study: Study) -> dict[str, Any]:
    """Everything asked for that can change a number, with all defaults written out."""
    return {
        "data": _data(study.data),
        "source": None if study.source is None else sorted(study.source),
        "target": study.target,
        "seed": study.seed,
        "sample_seed": study.sample_seed,
        "split": study.split,
        "limit": study.limit,
        "prefix": study.prefix,
        "calibration": None if study.calibration is None else sorted(study.calibration),
        "models": {name: resolved_model(spec, study.seed) for name, spec in study.models.items()},
        "probes": resolved_probes(study),
    }


def resolved_probes(study: Study) -> list[dict[str, Any]]:
    """The probes of a study, with all defaults written out."""
    return [{"name": p.name, **_plain_options(PROBES.create(p.name, p.options))} for p in study.probes]


def resolved_model(spec: ModelSpec, seed: int) -> dict[str, Any]:
    """One model of a study, with all defaults written out."""
    if not spec.train:
        return {"model": given(spec.model), "train": False}
    objective, recipe = objective_of(spec)
    return {
        "model": _network(spec.model) if spec.model.name in MODELS else given(spec.model),
        "objective": {"name": spec.objective.name, **_plain_options(objective)},
        "recipe": asdict(recipe),
        "selection": spec.selection or objective.selection,
        "seed": seed if spec.seed is None else spec.seed,
        "pretrain": _resolved_phase(spec, seed),
    }


def digest(value: Mapping[str, Any], length: int = 10) -> str:
    """A short hash of a JSON value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def objective_of(spec: ModelSpec) -> tuple[Objective, Recipe]:
    """The objective of a model, and its recipe with the model's changes."""
    objective = OBJECTIVES.create(spec.objective.name, spec.objective.options)
    return objective, objective.recipe.override(spec.training)


def given(choice: Choice) -> dict[str, Any]:
    """A model that the user brings; a file counts by its content: other weights under that name are another model."""
    record = choice.model_dump()
    if choice.name.startswith("file:"):
        record["sha256"] = file_hash(model_path(choice.name))
    return record


def _resolved_phase(spec: ModelSpec, seed: int) -> dict[str, Any] | None:
    if spec.pretrain is None:
        return None
    source = None if spec.pretrain.source is None else sorted(spec.pretrain.source)
    phase = resolved_model(first_phase(spec, spec.pretrain), seed)
    return {"data": _data(spec.pretrain.data), "source": source, **phase}


def _data(choice: Choice) -> dict[str, Any]:
    if choice.name == GIVEN:
        return {"name": GIVEN}
    chosen = data_set(choice.name, choice.options)
    return {"name": choice.name, **_plain_options(chosen)}


def _network(choice: Choice) -> dict[str, Any]:
    front, head, own = split_options(choice.name, choice.options)
    return {"name": choice.name, **MODELS[choice.name].options, **own, **asdict(front), **asdict(head)}


def _plain_options(method: object) -> dict[str, Any]:
    return {name: to_plain(getattr(method, name)) for name in options_of(type(method))}
