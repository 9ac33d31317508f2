"""Image files, decoded when they are asked for."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from shiftproof.domains.links import walk_links
from shiftproof.errors import DataError
from shiftproof.execution.archives import open_member, read_member
from shiftproof.types import IntArray

__all__ = ["Directory", "FileInputs", "Files", "ZipArchive", "decode", "dimensions", "is_image", "open_files"]

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm", ".gif"}
CACHE_BYTES = 1 << 30
"""Decoded images are kept in memory when all of a domain's, at four bytes a pixel, are smaller than this."""
LARGEST_FILE = 1 << 28
"""Bytes of an image in an archive, unpacked; larger ones are not read."""
_HEADER_BYTES = 1 << 16
_UNREADABLE = (OSError, ValueError, SyntaxError, zipfile.BadZipFile, Image.DecompressionBombError)
_SIXTEEN_BIT = {"I;16", "I;16B", "I;16L", "I;16N", "I"}


class Files(Protocol):
    """A tree of files: a directory or an archive."""

    root: Path

    def names(self) -> list[str]:
        """Relative paths of all files, sorted."""

    def read(self, name: str) -> bytes:
        """The content of one file."""

    def header(self, name: str) -> bytes:
        """The start of one file, enough to tell an image's size."""


class Directory:
    """Files below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self) -> list[str]:
        """Relative paths of all files, sorted; hidden ones are passed over."""
        found = []
        for folder, folders, files in walk_links(self.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            relative = folder.relative_to(self.root)
            found += [(relative / name).as_posix() for name in files if not name.startswith(".")]
        return sorted(found)

    def read(self, name: str) -> bytes:
        """The content of one file."""
        return self._regular(name).read_bytes()

    def header(self, name: str) -> bytes:
        """The start of one file."""
        with self._regular(name).open("rb") as file:
            return file.read(_HEADER_BYTES)

    def _regular(self, name: str) -> Path:
        path = self.root / name
        # a pipe or a device behind a link would be read for ever
        if path.exists() and not path.is_file():
            raise OSError("it is not a regular file")
        return path


class ZipArchive:
    """Files in a zip archive, below its single top folder if it has one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            self._archive = zipfile.ZipFile(root)
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(f"{root} is not a readable zip archive: {error}") from error
        files = [info for info in self._archive.infolist() if not info.is_dir()]
        tops = {info.filename.split("/", 1)[0] for info in files}
        prefix = f"{tops.pop()}/" if len(tops) == 1 else ""
        self._infos = {info.filename.removeprefix(prefix): info for info in files}

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["root"])  # type: ignore[misc]

    def names(self) -> list[str]:
        """Relative paths of all files, sorted."""
        return sorted(self._infos)

    def read(self, name: str) -> bytes:
        """The content of one file."""
        info = self._infos[name]
        if info.file_size > LARGEST_FILE:
            raise ValueError(f"it would unpack to {info.file_size:,} bytes")
        return read_member(self._archive, info)

    def header(self, name: str) -> bytes:
        """The start of one file."""
        with open_member(self._archive, self._infos[name]) as file:
            return file.read(_HEADER_BYTES)


def open_files(path: Path) -> Files:
    """The tree of files in a folder or in a zip archive."""
    return ZipArchive(path) if path.is_file() else Directory(path)


class FileInputs:
    """Images of any number, resized to channels x height x width; 8- and 16-bit, gray and colour.

    `square` cuts each to its central square before that.
    """

    kind = "image"

    def __init__(
        self, files: Files, names: Sequence[str], shape: tuple[int, int, int], *, square: bool = False
    ) -> None:
        self._files, self._names, self._shape, self._square = files, list(names), shape, square
        self._cache: dict[int, NDArray[np.generic]] | None = (
            {} if len(names) * 4 * int(np.prod(shape)) < CACHE_BYTES else None
        )

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def in_memory(self) -> bool:
        return self._cache is not None

    @cached_property
    def fingerprint(self) -> str:
        brought_to = f"{self._shape!r}{' square' if self._square else ''}"
        digest = hashlib.blake2b(brought_to.encode(), digest_size=16)
        for content in _in_threads(self._digest, self._names):
            digest.update(content)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._names)

    def __getstate__(self) -> dict[str, Any]:
        # a worker decodes its own share instead of being sent all pixels
        return {**self.__dict__, "_cache": {} if self._cache is not None else None}

    def take(self, indices: IntArray) -> Tensor:
        wanted = indices.tolist()
        missing = [i for i in wanted if self._cache is None or i not in self._cache]
        fresh = dict(zip(missing, _in_threads(self._decode, missing), strict=True))
        if self._cache is not None:
            self._cache.update(fresh)
            fresh = self._cache
        if not wanted:
            return torch.empty(0, *self._shape)
        return torch.stack([_to_unit(fresh[i]) for i in wanted])

    def prepare(self) -> None:
        if self._cache is not None:
            self.take(np.arange(len(self)))

    def _digest(self, name: str) -> bytes:
        try:
            return hashlib.blake2b(self._files.read(name), digest_size=16).digest()
        except _UNREADABLE as error:
            raise DataError(f"can't read the file {self._files.root / name}: {error}") from error

    def _decode(self, index: int) -> NDArray[np.generic]:
        name = self._names[index]
        try:
            return decode(self._files.read(name), self._shape, square=self._square)
        except _UNREADABLE as error:
            reason = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
            raise DataError(
                f"can't read the image {self._files.root / name}: {reason}. Replace or remove it; "
                f"'shiftproof validate' lists all such files."
            ) from error


def decode(content: bytes, shape: tuple[int, int, int], *, square: bool = False) -> NDArray[np.generic]:
    """An image file as channels x height x width: uint8, or float32 in [0, 1] where it has more than 8 bits.

    Pillow reads 16-bit gray at full depth and 16-bit colour at its upper 8 bits. Another size is stretched, not
    cropped, unless `square` asks for the central square; a camera's note that an image lies on its side is obeyed.
    """
    channels, height, width = shape
    with Image.open(io.BytesIO(content)) as file:
        image: Image.Image = ImageOps.exif_transpose(file)
        if image.mode in _SIXTEEN_BIT:
            values = np.asarray(image)
            if values.min() < 0 or values.max() > 65535:
                raise ValueError(
                    f"its values run from {values.min()} to {values.max()}; 8 and 16 bits are read, not 32"
                )
            image = Image.fromarray(values.astype(np.float32) / 65535)
        elif image.mode == "F":
            values = np.asarray(image)
            if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1):
                raise ValueError(
                    f"its floating-point values run from {values.min():.3g} to {values.max():.3g}, not in [0, 1]"
                )
        elif image.mode != "L" or channels == 3:
            image = image.convert("RGB" if channels == 3 else "L")
        if square:
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            image = image.crop((left, top, left + side, top + side))
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        pixels = np.asarray(image)
    if pixels.ndim == 2:
        return np.array(np.broadcast_to(pixels, (channels, height, width)))
    return np.array(pixels.transpose(2, 0, 1), order="C")


def dimensions(files: Files, names: Sequence[str]) -> list[tuple[int, int, int]]:
    """Channels, height and width of every file whose header can be read; the others are reported when decoded."""

    def look(name: str) -> tuple[int, int, int] | None:
        for read in (files.header, files.read):  # some headers are long (embedded thumbnails, colour profiles)
            try:
                return _dimensions(read(name))
            except _UNREADABLE:
                continue
        return None

    return [shape for shape in _in_threads(look, names) if shape is not None]


def _dimensions(content: bytes) -> tuple[int, int, int]:
    """Channels (1 or 3), height and width of an image file, from its header."""
    with Image.open(io.BytesIO(content)) as image:
        gray = image.mode in {"1", "L", "LA", "F"} | _SIXTEEN_BIT
        on_its_side = image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
        height, width = (image.width, image.height) if on_its_side else (image.height, image.width)
        return 1 if gray else 3, height, width


def is_image(name: str) -> bool:
    """Whether a file's ending is that of an image."""
    return Path(name).suffix.lower() in SUFFIXES


def _to_unit(pixels: NDArray[np.generic]) -> Tensor:
    tensor = torch.from_numpy(pixels)
    return tensor.float() / 255 if tensor.dtype == torch.uint8 else tensor.float()


def _in_threads(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """`function` of every item; decoding and reading leave the interpreter lock, so that threads help."""
    if len(items) < 8:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(function, items))
