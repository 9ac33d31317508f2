"""An append-only record of finished work that survives `kill -9`."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any

from shiftproof.errors import StorageError

__all__ = ["Journal"]


class Journal:
    """Finished pieces of work by key, one checksummed line each.

    The first line holds `identity`: what the work is (model, data, settings). A journal of another identity is
    discarded, because its results answer another question; a torn last line, left by a crash in mid-write, is cut off.

    >>> import tempfile; path = Path(tempfile.mkdtemp()) / "probe.journal"
    >>> with Journal(path, {"model": "a"}) as journal:
    ...     journal.append("0", [1, 0])
    >>> with Journal(path, {"model": "a"}) as journal:
    ...     journal.done
    {'0': [1, 0]}
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self.done: dict[str, Any] = {}
        records, valid_bytes = _read(path)
        header = {"identity": identity}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if records and records[0] == header:
                self.done = {record["key"]: record["value"] for record in records[1:]}
                self._file = path.open("r+b", buffering=0)
                self._file.truncate(valid_bytes)
                self._file.seek(valid_bytes)
            else:
                self._file = path.open("wb", buffering=0)
                self._write(header)
        except OSError as error:
            raise StorageError(f"can't write the journal {path}: {error.strerror or error}") from error

    def append(self, key: str, value: Any) -> None:
        """Record that the piece `key` is done. When this returns, a killed process no longer loses it."""
        self._write({"key": key, "value": value})
        self.done[key] = value

    def discard(self) -> None:
        """Remove the file: its content is now elsewhere."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _write(self, record: dict[str, Any]) -> None:
        body = json.dumps(record, separators=(",", ":")).encode()
        start = self._file.tell()
        try:
            self._file.write(b"%08x %s\n" % (zlib.crc32(body), body))
        except OSError as error:
            self._file.truncate(start)
            raise StorageError(f"can't write the journal {self.path}: {error.strerror or error}") from error


def _read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The intact records from the start of the file, and where they end."""
    if not path.is_file():
        return [], 0
    records, position = [], 0
    for line in path.read_bytes().splitlines(keepends=True):
        checksum, _, body = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(body):
            break
        records.append(json.loads(body))
        position += len(line)
    return records, position
