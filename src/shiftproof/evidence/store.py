"""Evidence on disk: evidence/<model>/<domain>/<probe>-<hash of its setting>.parquet, and journals of open probes."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shiftproof.errors import DataError
from shiftproof.evidence.evidence import Evidence
from shiftproof.evidence.measurement import Measurement
from shiftproof.evidence.stored import ROW_GROUP, ParquetSource, StoredRows
from shiftproof.execution import Journal, parse_json, write_atomically
from shiftproof.execution.tables import hash_table

__all__ = ["EvidenceStore", "StoredFile", "slug"]

FORMAT = 3
_LONGEST = 80
_FACTS, _IDENTITY, _SEAL = b"shiftproof.facts", b"shiftproof.identity", b"shiftproof.seal"


@dataclass(frozen=True, eq=False)
class StoredFile:
    """A file of evidence: what one probe measured, one measurement a setting, and the identity of what was asked.

    Facts are in memory, rows are read when they are asked for. `said` is what the file says of them as it is sealed.
    """

    path: Path
    evidence: Evidence
    identity: dict[str, Any]
    rows: StoredRows
    said: bytes
    seal: str

    @cached_property
    def untouched(self) -> bool:
        """Whether it is as it was written; all of it is read for that, one column after the other."""
        return self.seal == hash_table(self.rows.from_file(), self.said)


class EvidenceStore:
    """The evidence folder of a run. A Parquet file appears whole, when its probe has ended."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, model: str, domain: str, probe: str, setting: str, train_seed: int | None = None) -> Path:
        """Where the measurements of a probe are, or will be; `train_seed` where a model is trained with several."""
        short = hashlib.sha256(setting.encode()).hexdigest()[:8]
        folder = slug(model if train_seed is None else f"{model}-{train_seed}")
        return self.root / folder / slug(domain) / f"{slug(probe)}-{short}.parquet"

    def journal(self, path: Path, identity: dict[str, Any]) -> Journal:
        """The journal of a probe under way."""
        return Journal(path.with_suffix(".journal"), identity)

    def finished(self, path: Path, identity: dict[str, Any]) -> Evidence | None:
        """The measurements at `path` if they answer the same question, else None; as they were written, or refused."""
        if not path.is_file():
            return None
        file = _read(path)
        if file.identity != identity:
            return None
        if not file.untouched:
            raise DataError(f"{path} was changed after it was written; remove it to measure again")
        return file.evidence

    def finish(self, path: Path, evidence: Evidence, identity: dict[str, Any]) -> Evidence:
        """Write what a probe that has ended measured, in one atomic step: facts once, columns one below the other.

        Returns the same measurements with their rows in the file, and no longer in memory.
        """
        table = pa.concat_tables([one.table for one in evidence])
        facts = [{**one.facts, "samples": len(one)} for one in evidence]
        notes = {_FACTS: json.dumps({"format": FORMAT, "facts": facts}).encode(), _IDENTITY: _json(identity)}
        notes[_SEAL] = hash_table(table, _json(facts)).encode()
        buffer = io.BytesIO()
        # so that one measurement of many can be read without the others
        pq.write_table(table.replace_schema_metadata(notes), buffer, row_group_size=ROW_GROUP)
        write_atomically(path, buffer.getvalue())
        return _read(path).evidence

    def read_file(self, path: Path) -> StoredFile:
        """One finished file, with what it says of itself."""
        return _read(path)

    def files(self) -> Iterator[StoredFile]:
        """Every finished file, with what it says of itself."""
        yield from map(_read, sorted(self.root.rglob("*.parquet")))

    def read(self) -> Evidence:
        """All finished measurements."""
        return Evidence([one for file in self.files() for one in file.evidence])


def slug(name: str) -> str:
    """A name that is safe as a file name; one that had to be changed gets a hash, so that two names do not meet.

    >>> slug("e=0.9"), slug("site 1/a")
    ('e=0.9', 'site-1-a-b916af')
    """
    safe = re.sub(r"[^A-Za-z0-9._=+-]+", "-", name).strip(".-")
    if safe == name and 0 < len(name) <= _LONGEST:
        return name
    return f"{safe[:_LONGEST] or 'unnamed'}-{hashlib.blake2b(name.encode(), digest_size=3).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _read(path: Path) -> StoredFile:
    source = ParquetSource.open(path)
    notes, rows = source.schema.metadata or {}, source.rows
    try:
        seal = notes.get(_SEAL, b"").decode()
        said, identity = (parse_json(notes.get(key, b"null")) for key in (_FACTS, _IDENTITY))
        facts, samples = said["facts"], [int(one["samples"]) for one in said["facts"]]
        whole = said["format"] == FORMAT and isinstance(identity, dict)
        whole = whole and sum(samples) == rows.num_rows and min(samples, default=0) >= 0
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise DataError(f"{path} does not hold evidence: it does not say what its rows are of") from error
    if not whole or not rows.num_rows:
        raise DataError(f"{path} does not hold evidence: its rows are not those that it says")
    starts = np.cumsum([0, *samples])
    measurements = [
        Measurement({name: value for name, value in one.items() if name != "samples"}, rows.slice(int(start), count))
        for one, start, count in zip(facts, starts, samples, strict=False)
    ]
    return StoredFile(path, Evidence(measurements), identity, rows, _json(facts), seal)
