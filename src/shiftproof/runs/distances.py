"""Distances that `shiftproof shift` has found, kept beside a run so that its report can show them: distances.json."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.report.shift import KnownDistance
from shiftproof.runs.kept import KeptRows

__all__ = ["keep_distances", "read_distances"]

_KEPT = KeptRows("distances", KnownDistance, "shiftproof shift --in-report")


def keep_distances(folder: Path, found: Sequence[KnownDistance]) -> None:
    """Add distances to those that a run knows; one of the same target, domain and norm is replaced."""
    new = {(one.target, one.domain, one.norm, one.units): one for one in found}
    kept = {(one.target, one.domain, one.norm, one.units): one for one in read_distances(folder)}
    if kept | new:
        _KEPT.write(folder, list((kept | new).values()))


def read_distances(folder: Path) -> list[KnownDistance]:
    """What a run knows of how far targets are; nothing where nobody has asked."""
    return _KEPT.read(folder)
