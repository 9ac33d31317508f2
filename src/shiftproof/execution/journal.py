"""An append-only record of finished work that survives `kill -9`."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from shiftproof.errors import StorageError
from shiftproof.execution.files import parse_json

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
        header = {"identity": identity}
        valid_bytes = 0
        # one record after the other: of a piece that was recorded many times only the last is kept
        for number, (record, end) in enumerate(_records(path)):
            if number == 0 and record != header:
                break
            if number and not {"key", "value"} <= set(record):
                break
            valid_bytes = end
            if number:
                self.done[record["key"]] = record["value"]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if valid_bytes:
                self._file = path.open("r+b", buffering=0)
                self._file.truncate(valid_bytes)
                self._file.seek(valid_bytes)
            else:
                self._file = path.open("wb", buffering=0)
                self._write(header)
        except OSError as error:
            raise StorageError(f"can't write the journal {path}: {error.strerror or error}") from error

    @staticmethod
    def identity_at(path: Path) -> dict[str, Any] | None:
        """The identity of the journal at `path`; None if there is none that is intact."""
        record = next((one for one, _ in _records(path)), {})
        identity: dict[str, Any] | None = record.get("identity")
        return identity

    def append(self, key: str, value: Any) -> None:
        """Record what is done of the piece `key`, in place of what was said of it before.

        When this returns, a killed process no longer loses it.
        """
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


def _records(path: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """The intact records from the start of the file, and where each ends."""
    if not path.is_file():
        return
    position = 0
    with path.open("rb") as file:
        for line in file:
            checksum, _, body = line.rstrip(b"\n").partition(b" ")
            if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(body):
                return
            try:
                record = parse_json(body)
            except ValueError:
                return
            if not isinstance(record, dict):
                return
            position += len(line)
            yield record, position
