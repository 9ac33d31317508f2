"""What a run keeps of the samples that its gallery shows: figures/gallery-<domain>.json, written when it ends.

Pictures and texts are stored, and what no evidence records: the answer to one noisy copy. All other numbers of a
gallery come from evidence when a page is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from shiftproof.errors import DataError
from shiftproof.evidence import slug
from shiftproof.execution import read_json, write_json
from shiftproof.report.gallery.pictures import is_picture

__all__ = ["FORMAT", "GalleryFile", "GallerySample", "Version", "VersionKind", "gallery_path", "read_gallery"]

FORMAT = "shiftproof-gallery/1"
VersionKind = Literal["original", "noisy", "moved", "attacked", "difference", "corrupted"]


@dataclass(frozen=True)
class Version:
    """A sample as it is, or after something was done to it: a picture (data URL) or a text.

    `model` is nothing where it is the same for all models. `setting` is that of the measurement which records the
    answer. `answer` is a class, where evidence does not record it. `note` says what was done, or why nothing is shown.
    """

    kind: VersionKind
    note: str = ""
    model: str = ""
    setting: str = ""
    picture: str = ""
    text: str | None = None
    answer: int | None = None


@dataclass(frozen=True)
class GallerySample:
    """A sample with all its versions, the original first; without contents there are none."""

    id: str
    versions: Sequence[Version] = ()

    def of(self, kind: VersionKind, model: str = "") -> list[Version]:
        """The versions of a kind that are of a model, or of all."""
        return [one for one in self.versions if one.kind == kind and one.model in ("", model)]


@dataclass(frozen=True)
class GalleryFile:
    """The samples of one domain, in the run's random order, and what was left out.

    Without `contents` there are ids alone: somebody asked for a report without samples.
    """

    domain: str
    kind: Literal["image", "text"]
    contents: bool
    samples: Sequence[GallerySample]
    notes: Sequence[str] = field(default=())

    def write(self, path: Path) -> None:
        """Write it to a JSON file, atomically."""
        write_json(path, {"format": FORMAT, **asdict(self)})


_READER: TypeAdapter[GalleryFile] = TypeAdapter(GalleryFile)


def gallery_path(folder: Path, domain: str) -> Path:
    """Where a run keeps the samples that its gallery shows of a domain."""
    return folder / "figures" / f"gallery-{slug(domain)}.json"


def read_gallery(path: Path) -> GalleryFile:
    """Read what `GalleryFile.write` wrote; one that was damaged is refused with a sentence."""
    stored: dict[str, Any] = read_json(path, DataError)
    wrong = f"{path} does not hold the samples of a report; remove it, and run the same study again"
    if stored.pop("format", None) != FORMAT:
        raise DataError(wrong)
    try:
        gallery = _READER.validate_python(stored)
    except ValidationError as error:
        raise DataError(wrong) from error
    pictures = [one.picture for sample in gallery.samples for one in sample.versions if one.picture]
    if not all(map(is_picture, pictures)):
        raise DataError(wrong)
    return gallery
