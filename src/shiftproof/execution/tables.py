"""A hash of what is in an Arrow table."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["hash_table"]


def hash_table(table: Any, *notes: bytes) -> str:
    """A SHA-256 of all values, names of columns and `notes`, however Arrow has split or sliced the table in memory."""
    digest = hashlib.sha256(b"\0".join(notes))
    for name in table.column_names:
        column = table.column(name)
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
        digest.update(f"\0{name}\0{column.type}\0".encode())
        digest.update(np.packbits(column.is_null().to_numpy(zero_copy_only=False)).tobytes())
        if pa.types.is_string(column.type):
            lengths = pc.binary_length(pc.fill_null(column, ""))
            digest.update(lengths.to_numpy().astype(np.int64).tobytes())
            digest.update(_text(column))
        elif not pa.types.is_null(column.type):
            plain = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
            digest.update(pc.fill_null(plain, 0).to_numpy(zero_copy_only=False).tobytes())
    return digest.hexdigest()


def _text(column: Any) -> Any:
    """The bytes of all strings, one after the other."""
    data = column.buffers()[2]
    if data is None or not len(column):
        return b""
    # a slice shares the bytes of the whole: its offsets say where its own begin and end
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    if column.null_count:
        return "".join(value or "" for value in column.to_pylist()).encode()
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])]
