"""Write the samples of a run's gallery into its folder, unless they are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torch import nn

from shiftproof.attacks.victim import frozen
from shiftproof.domains import Domain
from shiftproof.errors import DataError
from shiftproof.evidence import Evidence
from shiftproof.report.gallery.files import GalleryFile, GallerySample, Version, gallery_path, read_gallery
from shiftproof.report.gallery.outcomes import first_seed
from shiftproof.report.gallery.pictures import note_on_size
from shiftproof.runs.data import StudyData
from shiftproof.runs.gallery.attacked import TimeLeft
from shiftproof.runs.gallery.changes import write_changes
from shiftproof.runs.gallery.choose import count_shown, samples_shown
from shiftproof.runs.gallery.gradients import write_gradients
from shiftproof.runs.gallery.versions import ShownModel, versions_of_model, versions_of_samples
from shiftproof.runs.spec import Study

__all__ = ["write_galleries"]

MODELS = 4
"""Models of which pictures are made; of others the gallery shows what was measured."""


def write_galleries(
    folder: Path,
    study: Study,
    data: StudyData,
    models: Mapping[str, nn.Module],
    evidence: Evidence,
    *,
    contents: bool = True,
) -> None:
    """Write the gallery of every domain that has none yet; `models` are those of the first training seed, by name.

    Without `contents`, ids alone are written: the report then shows outcomes without pictures and texts. With it, loss
    gradients of models that are adapted to noise are drawn, too, and what noises and corruptions do to samples.
    """
    write_gradients(folder, study, data, models, contents=contents)
    write_changes(folder, study, data, contents=contents)
    missing = [one for one in data.measured if not _is_there(gallery_path(folder, one.name), contents)]
    count, time = count_shown(data, study.all_probes, min(len(models), MODELS)), TimeLeft()
    for domain in missing:
        if not _can_be_shown(domain):
            continue
        samples = samples_shown(data, study.all_probes, domain, count)
        here = first_seed(evidence.where(domain=domain.name))
        shown = [
            ShownModel(name, module, [*study.probes_of(name)], here.where(model=name))
            for name, module in models.items()
            if len(here.where(model=name))
        ]
        gallery = _gallery(samples, shown, time) if contents else _ids_alone(samples)
        gallery.write(gallery_path(folder, domain.name))


def _can_be_shown(domain: Domain) -> bool:
    return domain.kind == "text" or len(domain.shape) == 3


def _is_there(path: Path, contents: bool) -> bool:
    if not path.is_file():
        return False
    try:
        return read_gallery(path).contents == contents
    except DataError:
        # what was damaged is made again
        return False


def _ids_alone(samples: Domain) -> GalleryFile:
    kept = [GallerySample(str(one)) for one in samples.ids]
    return GalleryFile(samples.name, samples.kind, contents=False, samples=kept)  # type: ignore[arg-type]


def _once(versions: Sequence[Version]) -> list[Version]:
    """The versions, with what several models were given stored with the first of them alone."""
    seen: set[tuple[str, str, str | None]] = set()
    kept = []
    for one in versions:
        repeated = one.kind == "noisy" and (one.note, one.picture, one.text) in seen
        seen.add((one.note, one.picture, one.text))
        kept.append(replace(one, picture="", text=None) if repeated else one)
    return kept


def _gallery(samples: Domain, shown: Sequence[ShownModel], time: TimeLeft) -> GalleryFile:
    found: dict[str, list[Version]] = {str(one): [] for one in samples.ids}
    notes = [note_on_size(samples.shape)] if samples.kind == "image" else []
    if shown:
        for sample, version in versions_of_samples(samples, shown[0]):
            found[sample].append(version)
    for one in shown[:MODELS]:
        with frozen(one.module):
            for sample, version in versions_of_model(samples, one, time):
                found[sample].append(version)
    if others := [one.name for one in shown[MODELS:]]:
        notes.append(f"Pictures are those of the first {MODELS} models; of {', '.join(others)} there are figures.")
    kept = [GallerySample(sample, _once(versions)) for sample, versions in found.items()]
    notes = [note for note in notes if note]
    return GalleryFile(samples.name, samples.kind, contents=True, samples=kept, notes=notes)  # type: ignore[arg-type]
