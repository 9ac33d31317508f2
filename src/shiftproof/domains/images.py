"""Image files, decoded when they are asked for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import UnidentifiedImageError
from torch import Tensor

from shiftproof.domains.decoding import decode
from shiftproof.domains.file_table import FileTable
from shiftproof.domains.files import UNREADABLE, Files
from shiftproof.domains.pixels import Pixels, PixelStore
from shiftproof.domains.threads import in_threads
from shiftproof.errors import DataError
from shiftproof.types import IntArray

__all__ = ["FileInputs"]

CACHE_BYTES = 1 << 29
"""Decoded images are kept in memory when all of a data set's, at a byte a number, are no more than this."""
BLOCK = 1_024
"""Images that are decoded at a time before anything is asked for."""


class FileInputs:
    """Images of any number, resized to channels x height x width; 8- and 16-bit, gray and colour.

    Args:
        square: Cut each to its central square before that.
        shorter: Bring the shorter side of each to so many pixels in place of that, and cut out the centre.
        table: What is known of files already, of which these are the `rows`.
        among: Images of the whole data set, which share the memory for decoded ones; these alone unless told.
    """

    kind = "image"

    def __init__(
        self,
        files: Files,
        names: Sequence[str] | NDArray[np.object_],
        shape: tuple[int, int, int],
        *,
        square: bool = False,
        shorter: int | None = None,
        table: FileTable | None = None,
        rows: IntArray | None = None,
        among: int | None = None,
    ) -> None:
        self._files, self._shape, self._square, self._shorter = files, shape, square, shorter
        self._table = FileTable(files, names) if table is None else table
        self._rows = np.arange(len(names)) if rows is None else rows
        self._names = self._table.names[self._rows]
        self._among = len(names) if among is None else among
        self._kept = self._store()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def in_memory(self) -> bool:
        return self._kept is not None

    @cached_property
    def fingerprint(self) -> str:
        cut = f" of {self._shorter}" if self._shorter is not None else " square" if self._square else ""
        brought_to = f"{self._shape!r}{cut}"
        digest = hashlib.blake2b(brought_to.encode(), digest_size=16)
        digest.update(self.digests(np.arange(len(self))).data)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._names)

    def __getstate__(self) -> dict[str, Any]:
        # a worker decodes its own share instead of being sent all pixels, and hashes nothing
        state = {**self.__dict__, "fingerprint": self.fingerprint, "_kept": None, "_table": None, "_rows": None}
        return state | {"_names": self._names.tolist()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._table, self._rows = FileTable(self._files, state["_names"]), np.arange(len(state["_names"]))
        self._names = self._table.names
        self._kept = self._store()

    def narrow(self, indices: IntArray) -> FileInputs:
        """Those at `indices` alone."""
        options: dict[str, Any] = {"square": self._square, "shorter": self._shorter, "among": self._among}
        own: dict[str, Any] = {"table": self._table, "rows": self._rows[indices]}
        return FileInputs(self._files, self._names[indices], self._shape, **options, **own)

    def digests(self, indices: IntArray) -> NDArray[np.uint8]:
        """A hash of each file's content, len(indices) x 16 bytes; no file is read that has not changed."""
        return self._table.digests(self._rows[indices])

    def take(self, indices: IntArray) -> Tensor:
        wanted = indices.tolist()
        if not wanted:
            return torch.empty(0, *self._shape)
        fresh = self._fresh(wanted)
        return _to_unit([fresh[i] if self._kept is None or i in fresh else self._kept[i] for i in wanted])

    def prepare(self, indices: IntArray | None = None) -> None:
        chosen = np.arange(len(self)) if indices is None else indices
        if self._kept is None:
            # one of those that are known to be unreadable, which raises
            self._fresh(chosen[self._table.unreadable[self._rows[chosen]]][:1].tolist())
        else:
            for start in range(0, len(chosen), BLOCK):
                self._fresh(chosen[start : start + BLOCK].tolist())

    def _fresh(self, wanted: list[int]) -> dict[int, Pixels]:
        """Those that were not kept, decoded; and kept from now on, if that is done at all."""
        missing = list(dict.fromkeys(i for i in wanted if self._kept is None or i not in self._kept))
        fresh = dict(zip(missing, in_threads(self._decode, missing), strict=True))
        if self._kept is not None:
            for number, pixels in fresh.items():
                self._kept.put(number, pixels)
        return fresh

    def _store(self) -> PixelStore | None:
        if self._among * math.prod(self._shape) > CACHE_BYTES:
            return None
        return PixelStore(len(self), self._shape, CACHE_BYTES * len(self) // max(1, self._among))

    def _decode(self, index: int) -> Pixels:
        name = self._names[index]
        try:
            return decode(self._files.read(name), self._shape, square=self._square, shorter=self._shorter)
        except UNREADABLE as error:
            reason = "not an image" if isinstance(error, UnidentifiedImageError) else str(error)
            raise DataError(
                f"can't read the image {self._files.root / name}: {reason}. Replace or remove it; "
                f"'shiftproof validate' lists all such files."
            ) from error


def _to_unit(images: list[Pixels]) -> Tensor:
    """Float32 in [0, 1], one after the other."""
    if all(pixels.dtype == np.uint8 for pixels in images):
        return torch.from_numpy(np.stack(images)).float() / 255
    return torch.stack([_to_unit([one])[0] if one.dtype == np.uint8 else torch.from_numpy(one) for one in images])
