"""Which kind of file somebody wants to import, by its content."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from shiftproof.errors import DataError, UsageError

__all__ = ["Kind", "kind_of", "read_bytes"]

Kind = Literal["certificates"]
_NUMPY = (b"\x93NUMPY", b"PK\x03\x04")


def read_bytes(path: Path) -> bytes:
    """The content of a file, or a sentence on why it can't be read."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name the files in it: {path}/*.tsv")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"can't read {path}: {error.strerror or error}") from error


def kind_of(name: str, content: bytes) -> Kind:
    """What a file holds; what is none of it is read as a log, whose reader says what is missing."""
    return "certificates"
