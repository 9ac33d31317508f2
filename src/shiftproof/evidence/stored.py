"""Rows of a Parquet file that are read when somebody asks for them: one column at a time, and only where they are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shiftproof.errors import DataError
from shiftproof.execution.recent import Recent

__all__ = ["ROW_GROUP", "ParquetSource", "StoredRows"]

ROW_GROUP = 1 << 16
"""Rows that are written, and read, together."""
_KEPT = 64 << 20
_WHOLE = 1 << 18
"""A group of so few bytes is read with all its columns: to open the file takes longer."""
_columns: Recent[Any] = Recent(_KEPT, size=lambda column: int(column.nbytes))
"""Columns of groups of rows that were read last, for all files that this process reads."""


@dataclass(frozen=True, eq=False)
class ParquetSource:
    """A Parquet file as it was when it was opened, of which nothing but the footer is in memory.

    It is opened for every read and then closed, because a run may have more files than a process may have open. A file
    that has changed in the meantime is refused: figures of a report are all of the same evidence.
    """

    path: Path
    metadata: Any
    state: tuple[int, int, str]

    @classmethod
    def open(cls, path: Path) -> ParquetSource:
        """Read the footer; a file that has none is refused."""
        try:
            with path.open("rb") as file:
                state = _state(file)
                return cls(path, pq.read_metadata(file), state)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise DataError(f"{path} is not a readable Parquet file: {error}") from error

    @property
    def schema(self) -> Any:
        """Names and types of its columns, and notes about all of it."""
        return self.metadata.schema.to_arrow_schema()

    @property
    def rows(self) -> StoredRows:
        """All of its rows."""
        groups = [self.metadata.row_group(place).num_rows for place in range(self.metadata.num_row_groups)]
        schema = self.schema.remove_metadata()
        return StoredRows(self, schema, tuple(schema.names), tuple(np.cumsum([0, *groups]).tolist()), 0, sum(groups))

    @cached_property
    def _key(self) -> str:
        return f"{self.path} {self.state}"

    def column(self, group: int, name: str) -> Any:
        """A column of a group of rows, as chunks."""
        return _columns.get((self._key, group, name), lambda: self._read(group, name))

    def _read(self, group: int, name: str) -> Any:
        whole = self.metadata.row_group(group).total_byte_size <= _WHOLE
        table = self.read(group, None if whole else [name])
        for other in table.column_names if whole else ():
            _columns.put((self._key, group, other), table.column(other))
        return table.column(name)

    def read(self, group: int, names: Sequence[str] | None = None) -> Any:
        """Some columns of a group of rows, or all, from the file."""
        try:
            with self.path.open("rb") as file:
                self._check(file)
                parquet = pq.ParquetFile(file, metadata=self.metadata)
                table = parquet.read_row_group(group, columns=names, use_threads=False)
                # whoever edits a file in place may have begun while it was read
                self._check(file)
        except FileNotFoundError as error:
            raise DataError(f"{self.path} was removed while its rows were in use; open the run again") from error
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{self.path} is not a readable Parquet file: {error}") from error
        return table

    def _check(self, file: IO[bytes]) -> None:
        if _state(file) != self.state:
            raise DataError(f"{self.path} was changed while its rows were in use; open the run again")


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows of a file from `start` on, `count` of them, or those of them at the places `chosen`.

    Has what is asked of an Arrow table in the same words. `starts` are where groups of rows begin, and last where the
    file ends; `choice` is nothing but itself, by which what was taken at the chosen places is found again.
    """

    source: ParquetSource
    schema: Any
    column_names: tuple[str, ...]
    starts: tuple[int, ...]
    start: int
    count: int
    chosen: NDArray[np.int64] | None = field(default=None, repr=False)
    choice: object = field(default_factory=object, repr=False)
    cached: bool = True

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.count if self.chosen is None else len(self.chosen)

    def column(self, name: str) -> Any:
        """A column as Arrow's chunked array."""
        if name not in self.column_names:
            raise KeyError(f"there is no column {name!r}; there are {', '.join(self.column_names)}")
        if self.chosen is None:
            return self._column(name)
        return _columns.get((self.choice, name), lambda: self._taken(name)) if self.cached else self._taken(name)

    def _taken(self, name: str) -> Any:
        return self._column(name).take(pa.array(self.chosen))

    def _column(self, name: str) -> Any:
        parts = list(self._parts(name))
        if len(parts) == 1:
            return parts[0]
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks], self.schema.field(name).type)

    def slice(self, start: int, count: int) -> StoredRows:
        """The rows from `start` on, `count` of them."""
        assert self.chosen is None
        return replace(self, start=self.start + start, count=min(count, self.count - start))

    def take(self, places: Any) -> StoredRows:
        """The rows at some places."""
        rows = np.asarray(places)
        return replace(self, chosen=rows if self.chosen is None else self.chosen[rows], choice=object())

    def filter(self, mask: Any) -> StoredRows:
        """The rows where a mask is true."""
        return self.take(np.flatnonzero(np.asarray(mask)))

    def from_file(self) -> StoredRows:
        """The same rows, read from the file every time: for whoever doubts it."""
        return replace(self, cached=False)

    def read(self) -> Any:
        """All of it as an Arrow table in memory."""
        return pa.table({name: self.column(name) for name in self.column_names}, schema=self.schema)

    def _parts(self, name: str) -> Iterator[Any]:
        """The column's parts in every group of rows that holds some of it."""
        end = self.start + self.count
        for number, (first, last) in enumerate(pairwise(self.starts)):
            if first < end and last > self.start:
                source, begin = self.source, max(self.start, first)
                group = source.column(number, name) if self.cached else source.read(number, [name]).column(name)
                yield group.slice(begin - first, min(end, last) - begin)


def _state(file: IO[bytes]) -> tuple[int, int, str]:
    """By which a file is known again: its size, when it was written, and its footer, in which the seal stands."""
    about = os.fstat(file.fileno())
    file.seek(max(0, about.st_size - 8))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(0, about.st_size - 8 - length))
    footer = file.read(length)
    file.seek(0)
    return about.st_size, about.st_mtime_ns, hashlib.sha256(footer).hexdigest()
