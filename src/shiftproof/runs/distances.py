"""Distances that `shiftproof shift` has found, kept beside a run so that its report can show them.

Lower bounds from certified domains are in distances.json, estimates between all domains in how-far.json, and what
models of other runs lose from one to the other in how-far-gaps.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.report.how_far import Gap, KnownPair
from shiftproof.report.shift import KnownDistance
from shiftproof.runs.kept import KeptRows
from shiftproof.theory.distances.measures import MEASURES

__all__ = ["keep_distances", "keep_pairs", "read_distances", "read_gaps", "read_pairs"]

_KEPT = KeptRows("distances", KnownDistance, "shiftproof shift --in-report")
_PAIRS = KeptRows("how-far", KnownPair, "shiftproof shift --distances --in-report")
_GAPS = KeptRows("how-far-gaps", Gap, "shiftproof shift --distances --in-report")


def keep_distances(folder: Path, found: Sequence[KnownDistance]) -> None:
    """Add distances to those that a run knows; one of the same target, domain and norm is replaced."""
    new = {(one.target, one.domain, one.norm, one.units): one for one in found}
    kept = {(one.target, one.domain, one.norm, one.units): one for one in read_distances(folder)}
    if kept | new:
        _KEPT.write(folder, list((kept | new).values()))


def read_distances(folder: Path) -> list[KnownDistance]:
    """What a run knows of how far targets are; nothing where nobody has asked."""
    return _KEPT.read(folder)


def keep_pairs(folder: Path, pairs: Sequence[KnownPair], gaps: Sequence[Gap] = ()) -> None:
    """Keep how far apart domains are beside a run; what it knew by other features or measures stays.

    `gaps` are those of other runs that were asked together with it.
    """
    new = {(one.features, one.measure) for one in pairs}
    _PAIRS.write(folder, [*(one for one in read_pairs(folder) if (one.features, one.measure) not in new), *pairs])
    again = {(one.run, one.model, one.target, one.figure) for one in gaps}
    kept = [one for one in read_gaps(folder) if (one.run, one.model, one.target, one.figure) not in again]
    if kept or gaps:
        _GAPS.write(folder, [*kept, *gaps])


def read_gaps(folder: Path) -> list[Gap]:
    """What models of other runs lose, which were asked together with this one."""
    return _GAPS.read(folder)


def read_pairs(folder: Path) -> list[KnownPair]:
    """What a run knows of how far apart its domains are; nothing where nobody has asked."""
    return [one for one in _PAIRS.read(folder) if one.measure in MEASURES]
