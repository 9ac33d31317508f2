"""What run.json says, and whether a folder holds the same run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from shiftproof.errors import DataError, UsageError
from shiftproof.execution import read_json, write_json
from shiftproof.rng import fresh_key, fresh_seed
from shiftproof.runs.cells import cell_threads
from shiftproof.runs.environment import environment
from shiftproof.runs.identity import digest
from shiftproof.runs.limits import takes_balanced
from shiftproof.runs.prepare import Prepared
from shiftproof.runs.record_shape import damaged_entries
from shiftproof.runs.spec import Study

__all__ = [
    "FORMAT",
    "LEAVE_ONE_OUT",
    "PROTOCOL",
    "check_same",
    "continue_record",
    "is_sealed",
    "new_record",
    "protocol_of",
    "read_record",
    "seal_of",
    "write_record",
]

LEAVE_ONE_OUT = "leave-one-out.json"
"""What lies in a folder with several runs, each with another domain left out."""
FORMAT = "shiftproof-run/3"
PROTOCOL = {
    "split": "by hash of group or sample id, 20 % validation",
    "limit": "a prefix of a random order of groups or samples, by hash of sample_seed and id",
}
"""How samples are chosen, in every run."""
_BALANCED = (
    "samples in turns over classes, of each the next in that order; classes of a turn by hash of sample_seed and name"
)


def protocol_of(study: Study) -> dict[str, str]:
    """How samples of a study are chosen."""
    return PROTOCOL | ({"balanced": _BALANCED} if takes_balanced(study.limit, study.prefix) else {})


def new_record(prepared: Prepared, identity: dict[str, Any], command: str = "") -> dict[str, Any]:
    """What run.json says before anything is measured; without a seed of the study, that of the noise is drawn now.

    `identity` is what was asked; the study has its budget resolved. `command` is what was typed, if anything was.
    """
    data = prepared.data
    return {
        "format": FORMAT,
        "hash": digest(identity),
        "command": command,
        "study": prepared.study.to_config(),
        # what evidence is filed under: of a probe that is not installed later, nothing else tells
        "settings": [repr(probe) for probe in prepared.study.all_probes],
        "config": identity,
        "sources": list(data.sources.names),
        **({"trained_on": {name: list(names) for name, names in data.trained_on.items()}} if data.trained_on else {}),
        "kind": data.sources.kind,
        "classes": list(data.sources.classes),
        "labels": {domain.name: domain.class_counts for domain in data.domains},
        "selected": {},
        "findings": [],
        "protocol": protocol_of(prepared.study),
        "parts": {domain.name: data.part(domain.name) for domain in data.domains},
        "left_out": {name: list(ids) for name, ids in data.left_out.items()},
        # what a page without samples hashes their ids with
        "id_key": fresh_key(),
        "noise_seed": fresh_seed() if prepared.seed is None else prepared.seed,
        "fingerprints": {"data": {domain.name: domain.fingerprint for domain in data.domains}, "weights": {}},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "cell_threads": cell_threads(prepared.study),
        "environment": environment(),
        "later_environments": [],
    }


def continue_record(folder: Path) -> dict[str, Any]:
    """The record of a run that goes on: what was computed keeps the record of what it was computed with.

    One that was edited is refused. What an earlier version has not sealed is examined again.
    """
    before = read_record(folder)
    if "seal" in before and not is_sealed(before):
        raise UsageError(
            f"{folder / 'run.json'} was changed after it was written; choose another --out, or remove the folder to "
            "measure anew"
        )
    now = environment()
    later = [] if now in [before["environment"], *before["later_environments"]] else [now]
    kept = before if "seal" in before else {key: value for key, value in before.items() if key != "examined"}
    # runs of before have no key
    return {"id_key": fresh_key(), **kept, "later_environments": [*before["later_environments"], *later]}


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write run.json with a seal, a hash of all of it: not all that it says can be derived again."""
    write_json(folder / "run.json", {**record, "seal": seal_of(record)})


def is_sealed(record: Mapping[str, Any]) -> bool:
    """Whether a record is as it was written."""
    return record.get("seal") == seal_of(record)


def seal_of(record: Mapping[str, Any]) -> str:
    """A hash of all that a record says but its seal."""
    # as it is read back
    return digest(json.loads(json.dumps({key: value for key, value in record.items() if key != "seal"})), 64)


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
    if (folder / LEAVE_ONE_OUT).is_file():
        each = ", ".join(str(path.parent) for path in sorted(folder.glob("*/run.json"))) or "one of its folders"
        raise DataError(f"{folder} is a leave-one-out, which has a run for each domain: name one of these: {each}")
    record = read_json(folder / "run.json", DataError)
    if record.get("format") != FORMAT:
        raise DataError(f"{folder} does not hold a shiftproof run")
    if wrong := damaged_entries(record):
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
