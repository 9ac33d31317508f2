"""Distances that `shiftproof shift` has found, kept beside a run so that its report can show them: distances.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from shiftproof.errors import DataError
from shiftproof.execution import read_json, write_json
from shiftproof.report.shift import KnownDistance

__all__ = ["keep_distances", "read_distances"]

_FORMAT = "shiftproof-distances/1"
_ROWS = TypeAdapter(list[KnownDistance])


def keep_distances(folder: Path, found: Sequence[KnownDistance]) -> None:
    """Add distances to those that a run knows; one of the same target, domain and norm is replaced."""
    new = {(one.target, one.domain, one.norm, one.units): one for one in found}
    kept = {(one.target, one.domain, one.norm, one.units): one for one in read_distances(folder)}
    if not (kept | new):
        return
    write_json(_path(folder), {"format": _FORMAT, "distances": [asdict(one) for one in (kept | new).values()]})


def read_distances(folder: Path) -> list[KnownDistance]:
    """What a run knows of how far targets are; nothing where nobody has asked."""
    path = _path(folder)
    if not path.is_file():
        return []
    document = read_json(path, DataError)
    try:
        if document.get("format") != _FORMAT:
            raise ValueError
        return _ROWS.validate_python(document["distances"])
    except (KeyError, ValueError, ValidationError) as error:
        raise DataError(f"{path} is damaged; remove it, and ask again: shiftproof shift --in-report") from error


def _path(folder: Path) -> Path:
    return folder / "distances.json"
