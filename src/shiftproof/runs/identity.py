"""What makes two studies the same one: all that was asked and that can change a number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from shiftproof.runs.model_spec import ModelSpec
from shiftproof.runs.pretraining import first_phase
from shiftproof.runs.spec import Study

__all__ = ["digest", "model_identity", "study_identity"]

_WORDS = ("name", "title", "about", "at_top", "cap", "scale", "claims", "published")


def study_identity(study: Study) -> dict[str, Any]:
    """Everything that a study asks for and that can change a number, with all defaults written out."""
    config = {key: value for key, value in study.to_config().items() if key not in _WORDS}
    defaults = {"seed": study.seed} if study.seeds is None else {}
    named = ("source", "target", "calibration")
    ordered = {key: sorted(config[key]) for key in named if isinstance(config.get(key), list)}
    models = {name: {**model_identity(spec, study.seed), **_own(spec)} for name, spec in study.models.items()}
    return {**config, **defaults, **ordered, "models": models}


def _own(spec: ModelSpec) -> dict[str, Any]:
    """What a model has besides what the study has for all; nothing for most, whose hash is that of older versions."""
    probes = {"probes": [probe.to_config() for probe in spec.probes]} if spec.probes else {}
    return probes | ({} if spec.source is None else {"source": sorted(spec.source)})


def model_identity(spec: ModelSpec, seed: int) -> dict[str, Any]:
    """One model of a study, with all defaults written out; a file counts by its content."""
    if not spec.train:
        return {"model": spec.model.identity(), "train": False}
    return {
        "model": spec.model.identity(),
        **_training_identity(spec),
        "seed": seed if spec.seed is None else spec.seed,
        "pretrain": None if spec.pretrain is None else _phase_identity(spec, seed),
    }


def _training_identity(spec: ModelSpec) -> dict[str, Any]:
    written = spec.model_dump(mode="json")
    return {"objective": written["objective"], "recipe": written["training"], "selection": spec.rule}


def _phase_identity(spec: ModelSpec, seed: int) -> dict[str, Any]:
    assert spec.pretrain is not None
    source = None if spec.pretrain.source is None else sorted(spec.pretrain.source)
    phase = model_identity(first_phase(spec, spec.pretrain), seed)
    return {"data": spec.pretrain.data.to_config(), "source": source, **phase}


def digest(value: Mapping[str, Any], length: int = 10) -> str:
    """A short hash of a JSON value."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:length]
