"""What run.json says, and whether a folder holds the same run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shiftproof.errors import DataError, UsageError
from shiftproof.execution import write_json
from shiftproof.rng import fresh_seed
from shiftproof.runs.data import StudyData
from shiftproof.runs.environment import environment
from shiftproof.runs.identity import digest
from shiftproof.runs.run import FORMAT, read_record
from shiftproof.runs.spec import Study

__all__ = ["new_record", "start_or_continue"]


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
        before = read_record(folder)
        if (other := _differs(before, record)) is not None:
            raise UsageError(f"{folder} holds a run with {other}; choose another --out")
        if before["fingerprints"]["data"] != record["fingerprints"]["data"]:
            raise DataError(f"the data has changed since the run in {folder} was started; choose another --out")
        if before["hash"] != record["hash"]:
            raise UsageError(f"{folder} holds a run of another study or other settings; choose another --out")
        if before["parts"] != record["parts"]:
            raise UsageError(f"{folder} holds a run that measured other parts of the data; choose another --out")
        if seed is not None and _has_own_noise(record) and before["noise_seed"] != seed:
            raise UsageError(
                f"{folder} holds a run whose noise is keyed by seed {before['noise_seed']}, not by {seed}, which is "
                "another seed; choose another --out"
            )
        # what was computed keeps the record of what it was computed with
        known = [before["environment"], *before["later_environments"]]
        later = [] if record["environment"] in known else [record["environment"]]
        return {**before, "later_environments": [*before["later_environments"], *later]}
    foreign = [name for name in ("model.safetensors", "models", "evidence") if (folder / name).exists()]
    if foreign:
        raise UsageError(
            f"{folder} holds {foreign[0]}, but no run.json: what is there is no run that could be continued; choose "
            "another --out"
        )
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
