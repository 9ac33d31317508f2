"""Evidence on disk: evidence/<model>/<domain>/<probe>.parquet, and the journal of what is still open."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shiftproof.errors import DataError
from shiftproof.evidence.record import SCHEMA, Evidence
from shiftproof.execution import Journal, parse_json, write_atomically

__all__ = ["EvidenceStore", "StoredFile", "slug"]

_LONGEST = 80
_IDENTITY, _CONTENT = b"shiftproof.identity", b"shiftproof.content"


@dataclass(frozen=True, eq=False)
class StoredFile:
    """A file of evidence: its rows, the question that they answer, and whether they are as they were written.

    `untouched` is None for a file from before that was noted.
    """

    path: Path
    rows: Evidence
    identity: dict[str, Any]
    untouched: bool | None


class EvidenceStore:
    """The evidence folder of a run. A Parquet file appears whole, when its probe has ended."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, model: str, domain: str, probe: str) -> Path:
        """Where the rows of a probe are, or will be."""
        return self.root / slug(model) / slug(domain) / f"{slug(probe)}.parquet"

    def journal(self, path: Path, identity: dict[str, Any]) -> Journal:
        """The journal of a probe under way."""
        return Journal(path.with_suffix(".journal"), identity)

    def finished(self, path: Path, identity: dict[str, Any]) -> Evidence | None:
        """The rows at `path` if they answer the same question, else None."""
        if not path.is_file():
            return None
        table = _read(path)
        stored = (table.schema.metadata or {}).get(_IDENTITY, b"{}")
        return Evidence(table.replace_schema_metadata(None)) if _identity(path, stored) == identity else None

    def finish(self, path: Path, rows: Evidence, identity: dict[str, Any]) -> None:
        """Write the rows of a probe that has ended, in one atomic step."""
        buffer = io.BytesIO()
        notes = {_IDENTITY: json.dumps(identity).encode(), _CONTENT: _content(rows.table).encode()}
        pq.write_table(rows.table.replace_schema_metadata(notes), buffer)
        write_atomically(path, buffer.getvalue())

    def files(self) -> Iterator[StoredFile]:
        """Every finished file, with what it says of itself."""
        for path in sorted(self.root.rglob("*.parquet")):
            table = _read(path)
            notes = table.schema.metadata or {}
            rows = table.replace_schema_metadata(None)
            whole = None if _CONTENT not in notes else notes[_CONTENT].decode() == _content(rows)
            yield StoredFile(path, Evidence(rows), _identity(path, notes.get(_IDENTITY, b"{}")), whole)

    def read(self) -> Evidence:
        """All finished rows."""
        tables = [_read(path).replace_schema_metadata(None) for path in sorted(self.root.rglob("*.parquet"))]
        return Evidence.of([Evidence(table) for table in tables])


def slug(name: str) -> str:
    """A name that is safe as a file name; one that had to be changed gets a hash, so that two names do not meet.

    >>> slug("e=0.9"), slug("site 1/a")
    ('e=0.9', 'site-1-a-b916af')
    """
    safe = re.sub(r"[^A-Za-z0-9._=+-]+", "-", name).strip(".-")
    if safe == name and 0 < len(name) <= _LONGEST:
        return name
    return f"{safe[:_LONGEST] or 'unnamed'}-{hashlib.blake2b(name.encode(), digest_size=3).hexdigest()}"


def _content(table: Any) -> str:
    """A hash of what is in a table, however it is laid out; columns without a value do not count."""
    digest = hashlib.sha256()
    for name in table.column_names:
        values = table.column(name).to_pylist()
        if any(value is not None for value in values):
            digest.update(json.dumps([name, values]).encode())
    return digest.hexdigest()


def _identity(path: Path, stored: bytes) -> dict[str, Any]:
    try:
        identity: dict[str, Any] = parse_json(stored)
    except ValueError as error:
        raise DataError(f"{path} does not say what its rows are of: {error}") from error
    return identity if isinstance(identity, dict) else {}


def _read(path: Path) -> Any:
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise DataError(f"{path} is not a readable Parquet file: {error}") from error
    unknown = [item.name for item in table.schema if item.name not in SCHEMA.names or item != SCHEMA.field(item.name)]
    if unknown or not table.num_columns:
        raise DataError(f"{path} does not hold evidence: its columns differ")
    # a file from before a column existed holds nothing in it
    missing = [item for item in SCHEMA if item.name not in table.schema.names]
    for item in missing:
        table = table.append_column(item, pa.nulls(table.num_rows, item.type))
    return table.select(SCHEMA.names)
