"""What is known of files: shapes of images and hashes of contents, read once and kept."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.decoding import image_shape
from shiftproof.domains.files import HEADER_BYTES, UNREADABLE, Files
from shiftproof.domains.index_cache import Known, read_known, write_known
from shiftproof.domains.threads import in_threads
from shiftproof.errors import DataError
from shiftproof.execution import current_progress, progress_bar
from shiftproof.types import IntArray

__all__ = ["FileTable"]

R = TypeVar("R")

WORTH_FILES, WORTH_BYTES = 1_000, 1 << 26
"""Fewer and smaller files are read again every time, in a moment."""
QUIET = 2_000
"""Up to so many files are read without a word."""
BLOCK = 2_048
"""Files that are read between two beats of the progress bar."""
RACY_NS = 2_000_000_000
"""A file that was changed less than this before it was read may be changed once more without another time: some file
systems count in steps of two seconds."""
MOST_PIXELS = 1 << 28
"""Pillow opens no image with more."""
_UNREADABLE = -1
_Shape = tuple[int, int, int]


class FileTable:
    """Shapes of images and hashes of contents by the number of a file, read when they are asked for.

    What is told a `source` (the folder, archive or list that names the files) and their `states` when they were listed
    keeps what it reads, and is only asked again for files that have changed since or could have without a trace.
    """

    def __init__(
        self,
        files: Files,
        names: Sequence[str] | NDArray[np.object_],
        states: IntArray | None = None,
        source: Path | None = None,
    ) -> None:
        self.files, self.names = files, _column(names)
        self._states = states
        self._shapes = np.zeros((len(names), 3), np.int32)
        self._digests = np.zeros((len(names), 16), np.uint8)
        self._hashed = np.zeros(len(names), bool)
        # before any file is read
        self._stamp = time.time_ns()
        many = len(names) >= WORTH_FILES or (states is not None and states[:, 0].sum() >= WORTH_BYTES)
        self._source = source if many and states is not None else None
        self._outdated = True
        if self._source is not None and (known := read_known(self._source, len(names))) is not None:
            self._take_over(known)

    @property
    def unreadable(self) -> NDArray[np.bool_]:
        """Files that were looked at and are no images (N)."""
        found: NDArray[np.bool_] = self._shapes[:, 0] == _UNREADABLE
        return found

    def shapes(self) -> NDArray[np.int32]:
        """Channels (1 or 3), height and width of every image (N x 3); zeros where its header can't be read."""
        rows = np.flatnonzero(self._shapes[:, 0] == 0)
        for row, (shape, digest) in self._each("indexing", rows, self._look):
            self._shapes[row] = shape
            if digest is not None:
                self._digests[row], self._hashed[row] = np.frombuffer(digest, np.uint8), True
        return np.maximum(self._shapes, 0)

    def distinct_shapes(self) -> list[_Shape]:
        """Channels, height and width that images have, of those whose header can be read."""
        _, first = np.unique(self.shapes().astype(np.int64) @ (1 << 56, 1 << 28, 1), return_index=True)
        return [(depth, height, width) for depth, height, width in self._shapes[first].tolist() if depth > 0]

    def digests(self, rows: IntArray) -> NDArray[np.uint8]:
        """Hashes of the contents of some files, len(rows) x 16 bytes."""
        missing = rows[~self._hashed[rows]]
        for row, digest in self._each("hashing", missing, self._digest):
            self._digests[row], self._hashed[row] = np.frombuffer(digest, np.uint8), True
        return self._digests[rows]

    def _each(self, what: str, rows: IntArray, read: Callable[[int], R]) -> Iterator[tuple[int, R]]:
        """What `read` makes of the files of some rows; it is kept, however this ends."""
        if not len(rows):
            return
        mode = current_progress() if len(rows) > QUIET else "off"
        try:
            with progress_bar(f"{what} {len(rows):,} files", len(rows), mode) as bar:
                for start in range(0, len(rows), BLOCK):
                    some = rows[start : start + BLOCK].tolist()
                    yield from zip(some, in_threads(read, some), strict=True)
                    bar.advance(len(some))
        finally:
            self._keep(rows)

    def _look(self, row: int) -> tuple[_Shape, bytes | None]:
        """The shape of an image; and, as most files are small, the hash if all of it was read for that."""
        name, digest = self.names[row], None
        # some headers are long (embedded thumbnails, colour profiles)
        for read in (self.files.header, self.files.read):
            try:
                content = read(name)
                if self._states is not None and len(content) == self._states[row, 0] < HEADER_BYTES:
                    digest = hashlib.blake2b(content, digest_size=16).digest()
                return image_shape(content), digest
            except UNREADABLE:
                continue
        return (_UNREADABLE, _UNREADABLE, _UNREADABLE), digest

    def _digest(self, row: int) -> bytes:
        name = self.names[row]
        try:
            return hashlib.blake2b(self.files.read(name), digest_size=16).digest()
        except UNREADABLE as error:
            raise DataError(f"can't read the file {self.files.root / name}: {error}") from error

    def _take_over(self, known: Known) -> None:
        """What is known of files that are as they were."""
        assert self._states is not None
        if "\0".join(self.names) == known.joined:
            before, self._outdated = np.arange(len(self.names)), False
        else:
            place = {name: row for row, name in enumerate(known.joined.split("\0"))}
            before = np.array([place.get(name, -1) for name in self.names], np.int64)
        then = known.states[before]
        same = (before >= 0) & (then == self._states).all(1) & (then[:, 0] >= 0)
        rows = np.flatnonzero(same & (then[:, 1:3].max(1) < known.stamp - RACY_NS))
        self._shapes[rows] = known.shapes[before[rows]]
        self._digests[rows], self._hashed[rows] = known.digests[before[rows]], known.hashed[before[rows]]
        # what no image has was not written by us
        channels, height, width = self._shapes.astype(np.int64).T
        possible = np.isin(channels, (1, 3)) & (height > 0) & (width > 0) & (height * width <= MOST_PIXELS)
        self._shapes[~possible] = 0

    def _keep(self, read: IntArray) -> None:
        """Write down what is known, unless it is what was known before but for files that can't be trusted anyway."""
        if self._source is None or self._states is None:
            return
        settled = self._states[read, 1:3].max(1) < self._stamp - RACY_NS
        if not self._outdated and not settled.any():
            return
        shapes = np.maximum(self._shapes, 0)
        known = Known("\0".join(self.names), self._states, shapes, self._digests, self._hashed, self._stamp)
        self._outdated = not write_known(self._source, known)
        if self._outdated and len(read) > QUIET:
            told = "its index can't be written, so that all files are read again every time"
            warnings.warn(f"{self._source}: {told}; set SHIFTPROOF_CACHE to a folder that can be", stacklevel=2)
            self._source = None


def _column(names: Sequence[str] | NDArray[np.object_]) -> NDArray[np.object_]:
    if isinstance(names, np.ndarray):
        return names
    column = np.empty(len(names), object)
    column[:] = names
    return column
