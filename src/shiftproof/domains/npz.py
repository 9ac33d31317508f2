"""Single data sets on disk: one npz file each, with its own train and test rows."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, DataSet, find_file, look_for
from shiftproof.errors import DataError
from shiftproof.execution.archives import unpacked_size
from shiftproof.types import IntArray

__all__ = ["LAYOUT", "Npz", "read_images", "read_npz"]

LAYOUT = "arrays x_train (N x H x W or N x H x W x 3, uint8), y_train, x_test, y_test"
ALWAYS_UNPACKED, MOST_UNPACKED = 1 << 30, 100
"""Bytes that a file may always unpack to, and how many times its size beyond that."""
DIGITS = tuple(str(digit) for digit in range(10))
CLOTHES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
KUZUSHIJI = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")
OBJECTS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_npz(path: Path, keys: tuple[str, ...]) -> dict[str, NDArray[np.generic]]:
    """The arrays `keys` of an npz file; never unpickles anything."""
    try:
        # from memory: numpy leaves a damaged file open
        content = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            size = unpacked_size(packed)
        if size > max(ALWAYS_UNPACKED, MOST_UNPACKED * len(content)):
            raise DataError(f"{path} has {len(content):,} bytes and would unpack to {size:,}: it was not unpacked")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {key: archive[key] for key in keys}
    except KeyError as error:
        raise DataError(f"{path} lacks the array {error.args[0]}; expected {', '.join(keys)}") from error
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a readable npz file: {error}") from error


def read_images(path: Path) -> tuple[NDArray[np.uint8], IntArray, list[str]]:
    """Images (N x C x H x W, uint8), labels, and 'train' or 'test' for each, train rows first."""
    arrays = read_npz(path, ("x_train", "y_train", "x_test", "y_test"))
    images = np.concatenate([arrays["x_train"], arrays["x_test"]])
    labels = np.concatenate([arrays["y_train"], arrays["y_test"]]).astype(np.int64)
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise DataError(f"{path}: images are {images.dtype} of shape {images.shape}; expected {LAYOUT}")
    images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    splits = ["train"] * len(arrays["x_train"]) + ["test"] * len(arrays["x_test"])
    return images, labels, splits


class Npz(DataSet):
    """A data set of one domain in one npz file; subclasses say which."""

    classes: ClassVar[tuple[str, ...]] = DIGITS
    published: ClassVar[tuple[int, tuple[int, int, int]] | None] = None
    """How many images the published file holds, and the shape of one."""
    layout = LAYOUT

    def load(self) -> Domains:
        """Read the file from the data folder."""
        images, labels, splits = read_images(find_file(self.name, self.files[0], self.layout))
        return Domains(self.name, [Domain.from_arrays(self.name, images, labels, self.classes, splits=splits)])

    def outline(self) -> Outline | None:
        """That of the published file; a file that is here may be a part of it, and is counted."""
        if self.published is None:
            return None
        count, shape = self.published
        if (path := look_for(self.files[0])) is not None:
            count = sum(map(len, read_npz(path, ("y_train", "y_test")).values()))
        return Outline(shape, self.classes, {self.name: count})


@DOMAINS.register("mnist", content="70,000 gray 28x28 digits")
@dataclass(frozen=True)
class MNIST(Npz):
    """Handwritten digits, 28x28 gray."""

    files = ("mnist.npz",)
    published = (70_000, (1, 28, 28))


@DOMAINS.register("fashion-mnist", content="gray 28x28 clothes")
@dataclass(frozen=True)
class FashionMNIST(Npz):
    """Ten kinds of clothes, 28x28 gray."""

    files = ("fashion_mnist.npz",)
    published = (70_000, (1, 28, 28))
    classes = CLOTHES


@DOMAINS.register("kmnist", content="gray 28x28 Japanese characters")
@dataclass(frozen=True)
class KMNIST(Npz):
    """Ten cursive Japanese characters, 28x28 gray."""

    files = ("kmnist.npz",)
    page = "http://codh.rois.ac.jp/kmnist"
    published = (70_000, (1, 28, 28))
    classes = KUZUSHIJI


@DOMAINS.register("usps", content="9,298 gray 16x16 digits")
@dataclass(frozen=True)
class USPS(Npz):
    """Digits from envelopes, 16x16 gray."""

    files = ("usps.npz",)
    published = (9_298, (1, 16, 16))


@DOMAINS.register("svhn", content="gray 32x32 house numbers")
@dataclass(frozen=True)
class SVHN(Npz):
    """Digits of house numbers, 32x32 gray."""

    files = ("svhn_gray.npz",)
    page = "http://ufldl.stanford.edu/housenumbers"


@DOMAINS.register("cifar10", content="RGB 32x32 objects")
@dataclass(frozen=True)
class CIFAR10(Npz):
    """Ten kinds of objects, 32x32 colour."""

    files = ("cifar10.npz",)
    page = "https://www.cs.toronto.edu/~kriz/cifar.html"
    classes = OBJECTS
