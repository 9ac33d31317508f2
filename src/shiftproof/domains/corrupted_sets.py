"""CIFAR-10-C and ImageNet-C as they are published: test images that others have corrupted, one domain a corruption."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from shiftproof.domains.decoding import is_image
from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.files import Directory
from shiftproof.domains.folder import domains_of_files
from shiftproof.domains.index import Index
from shiftproof.domains.npz import OBJECTS
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.errors import DataError, UnknownName, UsageError
from shiftproof.types import IntArray, Side

__all__ = ["CIFAR10C", "ImageNetC"]

SEVERITIES = 5
FIFTEEN = (
    *("gaussian-noise", "shot-noise", "impulse-noise", "defocus-blur", "glass-blur", "motion-blur", "zoom-blur"),
    *("snow", "frost", "fog", "brightness", "contrast", "elastic-transform", "pixelate", "jpeg-compression"),
)
PUBLISHED = (*FIFTEEN, "speckle-noise", "gaussian-blur", "spatter", "saturate")
"""All that are published; the last four are meant to choose by, and not to report."""
PAPER = "Hendrycks and Dietterich, ICLR 2019"


@dataclass(frozen=True)
class CorruptedSet(DataSet, ABC):
    """Test images that others have corrupted: of some corruptions, each at one severity."""

    severity: Annotated[int, Interval(ge=1, le=SEVERITIES)] = SEVERITIES
    corruptions: tuple[str, ...] = FIFTEEN

    def __post_init__(self) -> None:
        for name in self.corruptions:
            if name not in PUBLISHED:
                raise UnknownName(f"corruption of {self.name}", name, PUBLISHED)
        if not self.corruptions or len(set(self.corruptions)) < len(self.corruptions):
            raise UsageError(f"corruptions of {self.name} should be one or more names, each once")


@DOMAINS.register("cifar10-c", content="15 corruptions of the 10,000 test images of CIFAR-10, 3x32x32", paper=PAPER)
@dataclass(frozen=True)
class CIFAR10C(CorruptedSet):
    """CIFAR-10-C: the test images of CIFAR-10, corrupted, as published; to measure on, not to train on.

    Every corruption is a domain, at one `severity` of 1 to 5. Equal ids are the same photograph. `corruptions` are the
    fifteen that are reported, unless told.
    """

    files = ("CIFAR-10-C/labels.npy",)
    page = "https://zenodo.org/records/2535967"
    layout = "a folder CIFAR-10-C with labels.npy, fog.npy, ... (50,000 x 32 x 32 x 3, uint8), as published"

    def load(self) -> Domains:
        """Read the images of one severity from the data folder."""
        path = find_file(self.name, self.files[0], self.layout)
        labels = _array(path).astype(np.int64)
        if labels.ndim != 1 or not len(labels) or len(labels) % SEVERITIES:
            raise DataError(f"{path} has the shape {labels.shape}; expected are labels of five severities in turn")
        return Domains(self.name, [self._domain(path.parent, name, labels) for name in self.corruptions])

    def outline(self) -> Outline:
        """That of the published files."""
        return Outline((3, 32, 32), OBJECTS, dict.fromkeys(self.corruptions, 10_000))

    def _domain(self, root: Path, name: str, labels: IntArray) -> Domain:
        path = root / f"{name.replace('-', '_')}.npy"
        images, each = _array(path), len(labels) // SEVERITIES
        if images.dtype != np.uint8 or images.shape != (len(labels), 32, 32, 3):
            raise DataError(
                f"{path}: images are {images.dtype} of shape {images.shape}; expected uint8 of shape "
                f"({len(labels)}, 32, 32, 3), as many as there are labels"
            )
        rows = slice((self.severity - 1) * each, self.severity * each)
        chosen = np.ascontiguousarray(images[rows].transpose(0, 3, 1, 2))
        ids = [f"test/{number:05}" for number in range(each)]
        return Domain.from_arrays(name, chosen, labels[rows], OBJECTS, ids=ids, splits=["test"] * each)


def _array(path: Path) -> NDArray[np.generic]:
    """An array of a file, of which only what is used is read; never unpickles anything."""
    try:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{path.parent} lacks {path.name}: unpack CIFAR-10-C.tar again, or name others") from error
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} is not a readable npy file ({error}): was it cut?") from error
    return array


@DOMAINS.register("imagenet-c", content="15 corruptions of the 50,000 test images of ImageNet, 3x224x224", paper=PAPER)
@dataclass(frozen=True)
class ImageNetC(CorruptedSet):
    """ImageNet-C: the test images of ImageNet, corrupted, as published; to measure on, not to train on.

    Every corruption is a domain, at one `severity` of 1 to 5. Images are already cut to 224 x 224 pixels; another
    `size` shrinks them. `corruptions` are the fifteen that are reported, unless told; `classes` is another number of
    folders, for a part of ImageNet.
    """

    size: Side = 224
    classes: Annotated[int, Interval(ge=2, le=100_000)] = 1_000

    files = ("imagenet-c or ImageNet-C",)
    page = "https://zenodo.org/records/2235448"
    layout = (
        "a folder imagenet-c with fog/5/n01440764/ILSVRC2012_val_00000293.JPEG: corruption, severity, class; the "
        "archives noise.tar, blur.tar, weather.tar and digital.tar, unpacked side by side"
    )

    def load(self) -> Domains:
        """List the images; they are decoded when they are asked for."""
        root = find_file(self.name, self.files[0], self.layout)
        rows, states = list[tuple[str, str, str, str, str]](), []
        for name in self.corruptions:
            folder = f"{name.replace('-', '_')}/{self.severity}"
            if not (root / folder).is_dir():
                raise DataError(f"{root} lacks the folder {folder}. Expected: {self.layout}.")
            listing = Directory(root / folder).listing()
            assert listing.states is not None
            chosen = [place for place, file in enumerate(listing.names) if is_image(file) and "/" in file]
            found = [listing.names[place] for place in chosen]
            self._check(root / folder, {file.partition("/")[0] for file in found}, {row[1] for row in rows})
            rows += [(f"{folder}/{file}", file.partition("/")[0], name, "test", "") for file in found]
            states.append(listing.states[chosen])
        index = Index.of(Directory(root), rows, states=np.concatenate(states), source=root)
        domains = domains_of_files(self.name, index, self.size, channels=3)
        return domains.select(self.corruptions)

    def outline(self) -> Outline:
        """That of the published images."""
        names = tuple(f"class {number}" for number in range(self.classes))
        each = round(50_000 * self.classes / 1_000)
        return Outline((3, self.size, self.size), names, dict.fromkeys(self.corruptions, each))

    def _check(self, folder: Path, classes: set[str], known: set[str]) -> None:
        """Refuse a folder with other classes: labels after the first that is missing would be others."""
        if known and classes != known:
            raise DataError(f"{folder} and other folders beside it differ in the class {min(classes ^ known)}")
        if len(classes) != self.classes:
            raise DataError(
                f"{folder} has images of {len(classes):,} classes, not of {self.classes:,}: unpack the archive again, "
                f"or, if it is a part of ImageNet, say so: --set data.classes={len(classes)}"
            )
