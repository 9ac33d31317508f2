"""Draw what a run's probes do to samples: every noise that certifies or is added, and every corruption."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shiftproof.display.grid import draw_grids, png_bytes
from shiftproof.execution import write_atomically
from shiftproof.perturbations.noise import Noise
from shiftproof.probes import Probe
from shiftproof.probes.adapted import Adapted
from shiftproof.probes.certify import Certify
from shiftproof.probes.corrupt import Corrupt
from shiftproof.probes.noisy import Noisy
from shiftproof.report.gallery.changes import changes_path
from shiftproof.runs.data import StudyData
from shiftproof.runs.gallery.data_grids import data_grids
from shiftproof.runs.spec import Study

__all__ = ["noises_of", "write_changes"]

DOMAINS, SIDE = 6, 96
"""Domains that are shown, and pixels of a picture's longer side, about: the page holds all of it."""


def write_changes(folder: Path, study: Study, data: StudyData, *, contents: bool = True) -> None:
    """Draw a sample of every domain under all that the study does to samples, unless it is drawn; without `contents`,
    no picture stays.
    """
    path = changes_path(folder)
    if not contents:
        path.unlink(missing_ok=True)
        return
    domains = [one for one in data.measured if one.kind == "image" and len(one.shape) == 3 and len(one)][:DOMAINS]
    noises, corruptions = noises_of(study.all_probes), [one for one in _inner(study.all_probes) if _corrupts(one)]
    if path.is_file() or not domains or not (noises or corruptions):
        return
    grids = data_grids(domains, noises=noises, seed=study.seed) if noises else []
    for probe in corruptions[:1]:
        assert isinstance(probe, Corrupt)
        worst = probe.severities[-1]
        grids += data_grids(domains, corruptions=list(probe.corruptions), severity=worst, seed=study.seed)
    write_atomically(path, png_bytes(draw_grids(grids, SIDE)))


def noises_of(probes: Sequence[Probe]) -> list[Noise]:
    """Noises on images that probes add or certify with, those of one family together, the smallest first."""
    found: list[Noise] = []
    for probe in _inner(probes):
        if isinstance(probe, Noisy):
            found.append(probe.noise)
        elif isinstance(probe, Certify):
            known = [getattr(one, "noise", None) for one in probe.certifiers]
            found += [one for one in known if isinstance(one, Noise)]
    images = [one for one in dict.fromkeys(found) if one.kind == "image" and not one.embedded]
    order = list(dict.fromkeys(one.name for one in images))
    return sorted(images, key=lambda one: (order.index(one.name), one.scale))


def _inner(probes: Sequence[Probe]) -> list[Probe]:
    """Probes, and those that are asked of adapted models."""
    return [one.probe if isinstance(one, Adapted) else one for one in probes]


def _corrupts(probe: Probe) -> bool:
    return isinstance(probe, Corrupt)
