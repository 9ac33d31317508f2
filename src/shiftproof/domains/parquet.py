"""Columns of a Parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shiftproof.errors import DataError

__all__ = ["read_columns"]


def read_columns(path: Path, columns: Sequence[str] | None = None) -> dict[str, list[Any]]:
    """The values of these columns, or of all; a `DataError` says what can't be read, or which column is missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # from memory: a file that is damaged is not left open
        with pa.BufferReader(path.read_bytes()) as content:
            names = pq.read_schema(content).names
            lacking = [column for column in columns or () if column not in names]
            if not lacking:
                table = pq.read_table(content, columns=None if columns is None else list(columns))
                return {name: table.column(name).to_pylist() for name in table.column_names}
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise DataError(f"{path} is not a readable Parquet file: {str(error).splitlines()[0]}") from error
    raise DataError(f"{path} lacks the column {lacking[0]!r}; it has {', '.join(names) or 'none'}")
