"""Trees of files: a folder or a zip archive."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from shiftproof.domains.links import State, scan_links, state_in, state_of
from shiftproof.domains.threads import in_threads
from shiftproof.errors import DataError
from shiftproof.execution.archives import open_member, read_member
from shiftproof.types import IntArray

__all__ = ["HEADER_BYTES", "UNREADABLE", "Directory", "Files", "Listing", "ZipArchive", "open_files"]

LARGEST_FILE = 1 << 28
"""Bytes of an image in an archive, unpacked; larger ones are not read."""
HEADER_BYTES = 1 << 16
"""Of a file, enough to tell an image's size."""
UNREADABLE = (OSError, ValueError, SyntaxError, zipfile.BadZipFile, Image.DecompressionBombError)
"""What reading a file or decoding an image may raise."""
_ASKING = 2


@dataclass(frozen=True, eq=False)
class Listing:
    """Relative paths of files, and a row for each that changes with its content (N x 4), where there is one to ask."""

    names: list[str]
    states: IntArray | None = None


class Files(Protocol):
    """A tree of files: a directory or an archive."""

    root: Path

    def names(self) -> list[str]:
        """Relative paths of all files, sorted."""

    def listing(self) -> Listing:
        """The same, with their states."""

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
        return self.listing().names

    def listing(self) -> Listing:
        """The same, with their states."""
        names, states = list[str](), [_rows([])]
        for some, found in scan_links(self.root):
            names += some
            states.append(_rows(found))
        order = sorted(range(len(names)), key=names.__getitem__)
        return Listing([names[place] for place in order], np.concatenate(states)[order])

    def states(self, names: Sequence[str]) -> IntArray:
        """The states of some files; -1 of those that there are not."""
        # a path of its own is not put together a million times
        return _rows(list(in_threads(lambda name: state_of(os.path.join(self.root, name)), names, _ASKING)))  # noqa: PTH118

    def read(self, name: str) -> bytes:
        """The content of one file."""
        return self._regular(name).read_bytes()

    def header(self, name: str) -> bytes:
        """The start of one file."""
        with self._regular(name).open("rb") as file:
            return file.read(HEADER_BYTES)

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

    def listing(self) -> Listing:
        """The same, with their states: a change of the archive may be one of any file."""
        names = self.names()
        assert self._archive.fp is not None
        # of the file that is open, whatever may lie at its path by now
        found = os.fstat(self._archive.fp.fileno())
        return Listing(names, _rows([(self._infos[name].file_size, *state_in(found)[1:]) for name in names]))

    def read(self, name: str) -> bytes:
        """The content of one file."""
        info = self._infos[name]
        if info.file_size > LARGEST_FILE:
            raise ValueError(f"it would unpack to {info.file_size:,} bytes")
        return read_member(self._archive, info)

    def header(self, name: str) -> bytes:
        """The start of one file."""
        with open_member(self._archive, self._infos[name]) as file:
            return file.read(HEADER_BYTES)


def open_files(path: Path) -> Files:
    """The tree of files in a folder or in a zip archive."""
    return ZipArchive(path) if path.is_file() else Directory(path)


def _rows(states: Sequence[State]) -> IntArray:
    return np.array(states, np.int64).reshape(-1, 4)
