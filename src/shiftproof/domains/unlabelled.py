"""Samples without labels: all images below a folder, or a domain whose labels nobody asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.decoding import is_image
from shiftproof.domains.domain import Domain
from shiftproof.domains.file_table import FileTable
from shiftproof.domains.files import Directory
from shiftproof.domains.images import FileInputs
from shiftproof.domains.inputs import Inputs, SubsetInputs
from shiftproof.errors import DataError, DataNotFound
from shiftproof.rng import derive

__all__ = ["Unlabelled", "check_sizes", "image_names", "unlabelled_folder"]

_BLOCK = 256


@dataclass(frozen=True, eq=False, repr=False)
class Unlabelled:
    """Inputs of one domain without labels; `ids` are stable names, `groups` (patient, slide) where they are known."""

    name: str
    inputs: Inputs
    ids: NDArray[np.object_]
    groups: NDArray[np.object_] | None = None

    @classmethod
    def of(cls, domain: Domain) -> Unlabelled:
        """A domain without its labels."""
        return cls(domain.name, domain.inputs, domain.ids, domain.groups)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Unlabelled({self.name!r}, {len(self)} samples of {'x'.join(map(str, self.inputs.shape))})"

    @property
    def kind(self) -> str:
        """What inputs are: image | text."""
        return self.inputs.kind

    def first(self, limit: int | None, sample_seed: int = 0) -> Unlabelled:
        """At most `limit` samples, at random by group or id; in a random order of units, the last group may be cut."""
        if limit is None or limit >= len(self):
            return self
        units = self.ids if self.groups is None else self.groups
        keys = [
            (derive(sample_seed, "samples", str(unit)), derive(sample_seed, "samples", str(one)))
            for unit, one in zip(units, self.ids, strict=True)
        ]
        rows = np.sort(np.array(sorted(range(len(self)), key=keys.__getitem__)[:limit], np.int64))
        groups = None if self.groups is None else self.groups[rows]
        return Unlabelled(self.name, SubsetInputs(self.inputs, rows), self.ids[rows], groups)

    def arrays(self, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
        """The inputs as one array, N x shape in float32."""
        chosen = np.arange(len(self)) if rows is None else rows
        blocks = [self.inputs.take(chosen[start : start + _BLOCK]).numpy() for start in range(0, len(chosen), _BLOCK)]
        empty = np.zeros((0, *self.inputs.shape), np.float32)
        return np.concatenate(blocks).astype(np.float32, copy=False) if blocks else empty


def unlabelled_folder(path: Path, shape: tuple[int, ...], *, resize: bool, to_gray: bool = False) -> Unlabelled:
    """All images below a folder as one domain, brought to `shape` (channels, height, width).

    Folders inside it have no meaning: no class is read from them. Images of another size are resized if `resize`, and
    refused otherwise; so are images in colour, where the shape has one channel, unless `to_gray`.
    """
    if len(shape) != 3:
        raise DataError(f"{path} is a folder of images, and inputs here have the shape {shape}")
    channels, height, width = shape
    _check_folder(path)
    files = Directory(path)
    listing = files.listing()
    chosen = [place for place, name in enumerate(listing.names) if is_image(name)]
    if not chosen or listing.states is None:
        raise DataError(f"{path} holds no image")
    table = FileTable(files, [listing.names[place] for place in chosen], listing.states[chosen], path)
    check_sizes(table, (channels, height, width), resize=resize, to_gray=to_gray)
    inputs = FileInputs(files, table.names, (channels, height, width), table=table)
    return Unlabelled(path.resolve().name or str(path), inputs, table.names)


def image_names(path: Path) -> list[str]:
    """Paths of all images below a folder, relative to it; hidden files are passed over."""
    _check_folder(path)
    return [name for name in Directory(path).names() if is_image(name)]


def _check_folder(path: Path) -> None:
    if not path.is_dir():
        state = "is not a folder" if path.exists() else "does not exist"
        raise DataNotFound(f"{path} {state}. Expected: a folder with images, in folders or not; no labels are needed")


def check_sizes(table: FileTable, shape: tuple[int, int, int], *, resize: bool, to_gray: bool = False) -> None:
    """Refuse images that would have to be changed in another way than the data they are compared with were."""
    found = table.distinct_shapes()
    root = table.files.root
    channels, height, width = shape
    other = sorted({one[1:] for one in found} - {(height, width)})
    if other and not resize:
        (h, w) = other[0]
        raise DataError(
            f"{root} holds images of {w}x{h} pixels, and the run's are {width}x{height}, taken as they were: "
            f"bring them to {width}x{height} in the way that the run's images were made"
        )
    if channels == 1 and not to_gray and any(one[0] == 3 for one in found):
        raise DataError(f"{root} holds images in colour, and the run's are gray: convert them first")
