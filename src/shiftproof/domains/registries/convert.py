"""Files of packages in the form that loaders read: IDX images to npz, reviews to parquet."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import DataError
from shiftproof.execution.archives import unpacked_size

__all__ = ["content_digest", "npz_of_idx", "parquet_of_reviews", "read_idx"]

_UNSIGNED_BYTES = b"\x00\x00\x08"
_GZIP_START = b"\x1f\x8b"
_LARGEST = 1 << 30
"""Bytes, unpacked; what can be fetched has a twentieth of that."""


def npz_of_idx(files: Mapping[str, bytes]) -> bytes:
    """An npz file with one array for each IDX file, under the same name."""
    content = io.BytesIO()
    # the stubs of numpy take a mapping for the flag that stands beside the arrays
    np.savez_compressed(content, **{name: read_idx(file) for name, file in files.items()})  # type: ignore[arg-type]
    return content.getvalue()


def content_digest(file: bytes) -> str:
    """A sha256 of the arrays of an npz file, or of the columns of a parquet file, however they are compressed there."""
    digest = hashlib.sha256()
    try:
        for name, kind, shape, content in _arrays(file) if file.startswith(b"PK") else _columns(file):
            digest.update(json.dumps([name, kind, shape]).encode())
            digest.update(content)
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError(f"not a readable npz or parquet file: {error}") from error
    return digest.hexdigest()


def _arrays(file: bytes) -> Iterator[tuple[str, str, list[int], bytes]]:
    with zipfile.ZipFile(io.BytesIO(file)) as packed:
        if unpacked_size(packed) > _LARGEST:
            raise ValueError(f"it would unpack to {unpacked_size(packed):,} bytes")
    with np.load(io.BytesIO(file), allow_pickle=False) as archive:
        for name in sorted(archive.files):
            array = archive[name]
            yield name, array.dtype.str, list(array.shape), array.tobytes()


def _columns(file: bytes) -> Iterator[tuple[str, str, list[int], bytes]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(io.BytesIO(file))
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error
    for name in sorted(table.column_names):
        # texts of two kinds, short and long, are the same texts
        values = table.column(name).to_pylist()
        yield name, "column", [len(values)], json.dumps(values, default=str).encode()


def read_idx(file: bytes) -> NDArray[np.uint8]:
    """The array of an IDX file of unsigned bytes, gzipped or not: its shape in big-endian words, then the values."""
    file = gzip.decompress(file) if file.startswith(_GZIP_START) else file
    if not file.startswith(_UNSIGNED_BYTES) or len(file) < 4 + 4 * file[3]:
        raise DataError(f"not an IDX file of unsigned bytes: it starts with {file[:4].hex(' ')}")
    shape = tuple(np.frombuffer(file, ">u4", file[3], 4).tolist())
    values = np.frombuffer(file, np.uint8, offset=4 + 4 * file[3])
    if len(values) != math.prod(shape):
        raise DataError(f"an IDX file says that it holds {math.prod(shape)} values, but it has {len(values)}")
    return values.reshape(shape)


def parquet_of_reviews(files: Mapping[str, bytes], source: str) -> bytes:
    """A parquet file with the columns split, text and label (1 is good) of the reviews from `source`.

    All are 'train': what the package carries are the training parts of its sources.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import csv

    try:
        table = csv.read_csv(
            io.BytesIO(files["reviews"]),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types={"text": pa.large_string(), "label": pa.int64(), "source": pa.string()}
            ),
        )
        chosen = table.filter(pc.field("source") == source)
    except pa.ArrowException as error:
        raise DataError(f"the reviews are not a CSV file with columns text, label, source: {error}") from error
    split = pa.array(["train"] * len(chosen), pa.large_string())
    columns = {"split": split, "text": chosen["text"], "label": chosen["label"]}
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()
