"""STL-10 as it is published: binary files of images, column after column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.npz import LAYOUT as NPZ
from shiftproof.domains.npz import read_images, read_npz
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, DataSet, find_file, look_for
from shiftproof.errors import DataError
from shiftproof.types import IntArray, Side

__all__ = ["STL10"]

CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
"""In the order of the published labels, 1 to 10."""
COUNT = 13_000
SIDE = 96
BYTES = 3 * SIDE * SIDE
PARTS = ("train", "test")
PAGE = "https://cs.stanford.edu/~acoates/stl10"
LAYOUT = (
    f"a folder stl10_binary with train_X.bin, train_y.bin, test_X.bin and test_y.bin, as published at {PAGE}, or "
    f"stl10.npz with {NPZ}, labels 0 to 9"
)


@DOMAINS.register(
    "stl10",
    content="13,000 RGB 96x96 photographs of animals and vehicles, ten classes",
    source=PAGE,
    paper="Coates et al., AISTATS 2011",
)
@dataclass(frozen=True)
class STL10(DataSet):
    """Ten kinds of animals and vehicles, 96x96 colour, resized to `size` pixels.

    The labelled images alone: 5,000 of the train part and 8,000 of the test part. Classes are in the published order,
    which is not that of CIFAR-10.
    """

    size: Side = SIDE

    files = ("stl10_binary or stl10 or stl10.npz",)
    page = PAGE
    layout = LAYOUT

    def load(self) -> Domains:
        """Read the labelled images from the data folder."""
        path = find_file(self.name, self.files[0], self.layout)
        if path.is_dir():
            parts = [_read_part(path, part) for part in PARTS]
            splits = [part for part, (_, labels) in zip(PARTS, parts, strict=True) for _ in labels]
            images = np.concatenate([_resized(some, self.size) for some, _ in parts])
            labels = np.concatenate([some for _, some in parts])
        else:
            images, labels, splits = read_images(path)
            if images.shape[1] != 3:
                raise DataError(f"{path}: images have the shape {images.shape[1:]}; expected {LAYOUT}")
            images = _resized(images, self.size)
        return Domains(self.name, [Domain.from_arrays(self.name, images, labels, CLASSES, splits=splits)])

    def outline(self) -> Outline:
        """That of the published files; if some are here, they may be a part of them, and are counted."""
        count, path = COUNT, look_for(self.files[0])
        if path is not None and path.is_dir():
            count = sum(len(_read_labels(path / f"{part}_y.bin")) for part in PARTS)
        elif path is not None:
            count = sum(map(len, read_npz(path, ("y_train", "y_test")).values()))
        return Outline((3, self.size, self.size), CLASSES, {self.name: count})


def _read_part(folder: Path, part: str) -> tuple[NDArray[np.uint8], IntArray]:
    """The images (N x 3 x 96 x 96) and labels of the train or the test part."""
    path, labels = folder / f"{part}_X.bin", _read_labels(folder / f"{part}_y.bin")
    if not path.is_file():
        raise DataError(f"{folder} lacks {path.name}. Expected: {LAYOUT}.")
    size, due = path.stat().st_size, BYTES * len(labels)
    if size != due:
        raise DataError(
            f"{path} has {size:,} bytes, and {len(labels):,} images of 3x{SIDE}x{SIDE}, as many as {part}_y.bin has "
            f"labels, take {due:,}: was it cut? Fetch it again from {PAGE}"
        )
    # each channel is stored column after column
    return np.memmap(path, np.uint8, "r", shape=(len(labels), 3, SIDE, SIDE)).transpose(0, 1, 3, 2), labels


def _read_labels(path: Path) -> IntArray:
    """Labels from 0, of a file in which they are bytes from 1."""
    try:
        labels = np.frombuffer(path.read_bytes(), np.uint8).astype(np.int64)
    except OSError as error:
        raise DataError(f"{path} can't be read ({error.strerror or error}). Expected: {LAYOUT}.") from error
    if not len(labels):
        raise DataError(f"{path} is empty: was it cut? Fetch it again from {PAGE}")
    if labels.min() < 1 or labels.max() > len(CLASSES):
        raise DataError(f"{path}: labels run from {labels.min()} to {labels.max()}; expected 1 to {len(CLASSES)}")
    return labels - 1


def _resized(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Images (N x 3 x H x W) stretched to a size, one at a time: all of them at full size take much memory."""
    if images.shape[2:] == (size, size):
        return np.ascontiguousarray(images)
    resized = np.empty((len(images), 3, size, size), np.uint8)
    for place, image in enumerate(images):
        picture = Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0)))
        resized[place] = np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    return resized
