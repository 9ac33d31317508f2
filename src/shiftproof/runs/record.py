"""What run.json says, and whether a folder holds the same run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shiftproof.errors import DataError, UsageError
from shiftproof.execution import read_json
from shiftproof.rng import fresh_seed
from shiftproof.runs.environment import environment
from shiftproof.runs.identity import digest
from shiftproof.runs.prepare import Prepared

__all__ = ["FORMAT", "check_same", "continue_record", "new_record", "read_record"]

FORMAT = "shiftproof-run/3"
_KINDS: dict[str, type] = {
    "hash": str,
    "study": dict,
    "config": dict,
    "sources": list,
    "classes": list,
    "labels": dict,
    "selected": dict,
    "findings": list,
    "protocol": dict,
    "parts": dict,
    "noise_seed": int,
    "fingerprints": dict,
    "environment": dict,
    "later_environments": list,
}
"""What every run.json has."""


def new_record(prepared: Prepared, identity: dict[str, Any]) -> dict[str, Any]:
    """What run.json says before anything is measured; without a seed of the study, that of the noise is drawn now.

    `identity` is what was asked; the study has its budget resolved.
    """
    data = prepared.data
    return {
        "format": FORMAT,
        "hash": digest(identity),
        "study": prepared.study.to_config(),
        # what evidence is filed under: of a probe that is not installed later, nothing else tells
        "settings": [repr(probe) for probe in prepared.study.probes],
        "config": identity,
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
        "left_out": {name: list(ids) for name, ids in data.left_out.items()},
        "noise_seed": fresh_seed() if prepared.seed is None else prepared.seed,
        "fingerprints": {"data": {domain.name: domain.fingerprint for domain in data.domains}, "weights": {}},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "environment": environment(),
        "later_environments": [],
    }


def continue_record(before: dict[str, Any]) -> dict[str, Any]:
    """The record of a run that goes on: what was computed keeps the record of what it was computed with."""
    now = environment()
    later = [] if now in [before["environment"], *before["later_environments"]] else [now]
    return {**before, "later_environments": [*before["later_environments"], *later]}


def check_same(folder: Path, before: Mapping[str, Any], prepared: Prepared, identity: Mapping[str, Any]) -> None:
    """Refuse to continue a run that was asked something else; a seed that was asked for must be that of its noise."""
    if (other := _differs(before["config"], identity)) is not None:
        raise UsageError(f"{folder} holds a run with {other}; choose another --out")
    if before["fingerprints"]["data"] != {domain.name: domain.fingerprint for domain in prepared.data.domains}:
        raise DataError(f"the data has changed since the run in {folder} was started; choose another --out")
    if before["hash"] != digest(identity):
        raise UsageError(f"{folder} holds a run of another study or other settings; choose another --out")
    if before["parts"] != {domain.name: prepared.data.part(domain.name) for domain in prepared.data.domains}:
        raise UsageError(f"{folder} holds a run that measured other parts of the data; choose another --out")
    if prepared.seed is not None and prepared.models and before["noise_seed"] != prepared.seed:
        raise UsageError(
            f"{folder} holds a run whose noise is keyed by seed {before['noise_seed']}, not by {prepared.seed}, which "
            "is another seed; choose another --out"
        )


def read_record(folder: Path) -> dict[str, Any]:
    """What run.json says; refused with a sentence if it lacks what every run has."""
    record = read_json(folder / "run.json", DataError)
    if record.get("format") != FORMAT:
        raise DataError(f"{folder} does not hold a shiftproof run")
    wrong = [name for name, kind in _KINDS.items() if not isinstance(record.get(name), kind)]
    inner: Any = record.get("fingerprints")
    if not wrong and not all(isinstance(inner.get(name), dict) for name in ("data", "weights")):
        wrong = ["fingerprints"]
    numbers = record.get("radii", [])
    if not isinstance(numbers, list) or not all(isinstance(one, int | float) for one in numbers):
        wrong.append("radii")
    if wrong:
        raise DataError(
            f"{folder / 'run.json'} is damaged: {', '.join(wrong)} is missing or is not what a run has there"
        )
    return record


def _differs(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What another run was asked, in words; None if that is the same, or differs in the data alone."""
    one, other = (_flat(json.loads(json.dumps(config))) for config in (before, now))
    changed = sorted({key for key in {*one, *other} if one.get(key) != other.get(key)} - {"fingerprints"})
    return None if not changed else f"other {', '.join(changed)}"


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """What was asked of a run of one model, its objective and recipe beside its data and probes."""
    models = config.pop("models", {})
    return {**config, **next(iter(models.values()))} if len(models) == 1 else {**config, "models": models}
