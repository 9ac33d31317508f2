"""Records of a CSV, JSONL or Parquet file, each with the line (or row) where it stands."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shiftproof.domains.parquet import read_columns
from shiftproof.errors import DataError, DataNotFound

__all__ = ["LAYOUT", "Records", "read_records"]

LAYOUT = (
    "a .csv, .jsonl, .ndjson or .parquet file with columns text,label,domain and perhaps text2,split,group,id; "
    "other names: --set data.text=COLUMN"
)


@dataclass(frozen=True)
class Records:
    """The rows of a table: names of the columns (lower case), and for each row where it stands and its values."""

    path: Path
    columns: list[str]
    rows: Sequence[tuple[int, Mapping[str, Any]]]
    unit: str = "line"


def read_records(path: Path) -> Records:
    """All rows of the file, by its ending; a `DataError` says what can't be read, and in which line."""
    if not path.is_file():
        state = "is a folder" if path.is_dir() else "is not a file" if path.exists() else "does not exist"
        raise DataNotFound(f"{path} {state}. Expected: {LAYOUT}.")
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise DataError(f"{path} ends in {path.suffix or 'nothing'!r}, which is not known. Expected: {LAYOUT}.")
    try:
        records = read(path)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}") from error
    repeated = [name for name in records.columns if records.columns.count(name) > 1]
    if repeated:
        raise DataError(f"{path} has two columns called {repeated[0]!r}")
    return records


def _csv(path: Path) -> Records:
    content = _text(path)
    rows: list[tuple[int, Mapping[str, Any]]] = []
    with _long_fields(len(content)):
        reader = csv.reader(io.StringIO(content, newline=""), skipinitialspace=True, strict=True)
        line = 1
        try:
            columns = [_name(one) for one in next(reader, [])]
            line = reader.line_num + 1
            for values in reader:
                if any(value.strip() for value in values):
                    rows.append((line, _fields(path, line, columns, values)))
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{path}, line {line}: {error}; is a quotation mark not closed, or not doubled inside a text?"
            ) from error
    if len(columns) == 1 and (found := next((one for one in ";\t|" if one in columns[0]), None)):
        raise DataError(f"{path} has commas between columns nowhere in its first line, but {found!r}: use commas")
    return Records(path, [name for name in columns if name], rows)


def _fields(path: Path, line: int, columns: list[str], values: list[str]) -> dict[str, str | None]:
    if any(value.strip() for value in values[len(columns) :]):
        raise DataError(
            f"{path}, line {line}: {len(values)} values for {len(columns)} columns; put quotation marks around a text "
            "with commas"
        )
    padded = [*values, *[None] * (len(columns) - len(values))]
    return dict(zip(columns, padded, strict=False))


@contextmanager
def _long_fields(most: int) -> Iterator[None]:
    """A review may be longer than the 131,072 characters that the csv module allows unless told."""
    before = csv.field_size_limit(max(most, csv.field_size_limit()))
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _jsonl(path: Path) -> Records:
    columns: dict[str, None] = {}
    rows: list[tuple[int, Mapping[str, Any]]] = []
    # not splitlines: some of what it takes for the end of a line may stand inside a text
    for line, content in enumerate(_text(path).split("\n"), 1):
        if not content.strip():
            continue
        try:
            values = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {line}: not JSON: {error}") from error
        if not isinstance(values, dict):
            raise DataError(f"{path}, line {line}: expected an object {{...}}, not {type(values).__name__}")
        record = {_name(key): value for key, value in values.items()}
        columns |= dict.fromkeys(record)
        rows.append((line, record))
    return Records(path, list(columns), rows)


def _parquet(path: Path) -> Records:
    columns = read_columns(path)
    names = [_name(name) for name in columns]
    values = zip(*columns.values(), strict=True)
    return Records(path, names, [(row, dict(zip(names, one, strict=True))) for row, one in enumerate(values, 1)], "row")


_READERS: dict[str, Callable[[Path], Records]] = {
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}


def _text(path: Path) -> str:
    """The content of a file in UTF-8, with or without the mark that Excel puts in front."""
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{path}, line 1: this is UTF-16; save the file as UTF-8")
    if (nul := content.find(0)) >= 0:
        # UTF-16 without its mark is valid UTF-8 with every other byte 0
        raise DataError(
            f"{path}, line {_line(content, nul)}: there is a NUL byte (0x00), which no text holds; it is damaged, or "
            "UTF-16: save the file as UTF-8"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {_line(content, error.start)}: the byte 0x{content[error.start]:02x} is not UTF-8; save the "
            "file as UTF-8"
        ) from error


def _line(content: bytes, place: int) -> int:
    return content.count(b"\n", 0, place) + 1


def _name(column: str) -> str:
    return column.strip().lower()
