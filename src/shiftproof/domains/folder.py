"""Your own images: root/domain/class/image, or a CSV manifest with columns path, label, domain[, split][, group]."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.file_table import FileTable
from shiftproof.domains.files import Directory
from shiftproof.domains.images import FileInputs
from shiftproof.domains.index import LAYOUT, Index, index_of_manifest, index_of_tree, refuse
from shiftproof.domains.registry import DOMAINS, DataSet
from shiftproof.errors import DataError, DataNotFound
from shiftproof.types import IntArray, Side

__all__ = ["Folder", "domains_of_files"]


@DOMAINS.register("folder", content="your images: folder:PATH")
@dataclass(frozen=True)
class Folder(DataSet):
    """Your own images: root/domain/class/image, or a CSV manifest.

    `size` (pixels, or height and width) is needed when images differ in size; `channels` is 1 or 3.
    """

    path: str
    size: Side | tuple[Side, Side] | None = None
    channels: Literal[1, 3] | None = None

    @property
    def source(self) -> str:
        """As it is typed."""
        return f"folder:{self.path}"

    def index(self) -> Index:
        """Find the images without opening them."""
        path = Path(self.path)
        if path.is_dir():
            return index_of_tree(Directory(path))
        if path.is_file() and path.suffix.lower() == ".csv":
            return index_of_manifest(path)
        state = "is not a folder or a .csv file" if path.exists() else "does not exist"
        raise DataNotFound(f"{path} {state}. Expected: {LAYOUT}.")

    def load(self) -> Domains:
        """Find the images; decode them when they are asked for."""
        return domains_of_files(self.source, self.index(), self.size, self.channels)


def domains_of_files(
    name: str,
    index: Index,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    shorter: int | None = None,
    published: tuple[int, int] | None = None,
) -> Domains:
    """Domains whose images are decoded lazily; one label space, classes in alphabetical order.

    Images are stretched to their size, or cut out of the centre after their `shorter` side was brought to so many
    pixels. An image of another height and width than the `published` ones is refused.
    """
    refuse(index.problems)
    table = FileTable(index.files, index.paths, index.states, index.source)
    if published is not None:
        _check_size(name, table, index, published)
    shape = _shape(table, size, channels)
    classes, names = (tuple(sorted(set(column))) for column in (index.labels, index.domains))
    labels, places = _numbers(index.labels, classes), _numbers(index.domains, names)
    domains = []
    for place, domain in enumerate(names):
        rows = np.flatnonzero(places == place)
        ids, groups, splits = index.paths[rows], _filled(index.groups[rows]), _filled(index.splits[rows])
        inputs = FileInputs(index.files, ids, shape, shorter=shorter, table=table, rows=rows, among=len(index))
        domains.append(Domain(domain, classes, inputs, labels[rows], ids, groups, splits))
    return Domains(name, domains)


def _check_size(name: str, table: FileTable, index: Index, published: tuple[int, int]) -> None:
    shapes = table.shapes()
    # a header that can't be read is told when the image is
    other = np.flatnonzero((shapes[:, 0] > 0) & (shapes[:, 1:] != published).any(1))
    if len(other):
        (height, width), path = shapes[other[0], 1:].tolist(), index.paths[other[0]]
        raise DataError(
            f"{table.files.root}: {path} is {width}x{height}, as {len(other):,} of {len(shapes):,} images are not the "
            f"published {published[1]}x{published[0]} of {name}: brought to one size, they would show something else; "
            "--set data.whole=false takes them as they are"
        )


def _filled(column: NDArray[np.object_]) -> NDArray[np.object_] | None:
    return column if any(column) else None


def _numbers(texts: NDArray[np.object_], known: tuple[str, ...]) -> IntArray:
    """For each text, its place among those that are known."""
    number = {text: place for place, text in enumerate(known)}
    return np.fromiter((number[text] for text in texts), np.int64, len(texts))


def _shape(table: FileTable, size: int | tuple[int, int] | None, channels: int | None) -> tuple[int, int, int]:
    """The shape that all images are brought to: as told, else the one size that all have, in colour if any is."""
    if size is not None:
        height, width = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
        if channels is not None:
            return channels, height, width
    found = table.distinct_shapes()
    root = table.files.root
    if not found:
        raise DataError(f"none of the images of {root} can be read")
    depth = channels or max(shape[0] for shape in found)
    if size is not None:
        return depth, height, width
    sizes = sorted({shape[1:] for shape in found})
    if len(sizes) > 1:
        (h, w), (last_h, last_w) = sizes[0], sizes[-1]
        raise DataError(
            f"images of {root} differ in size (from {w}x{h} to {last_w}x{last_h}); "
            "state one to resize to: size=64 in Python, --set data.size=64 on the command line"
        )
    return depth, *sizes[0]
