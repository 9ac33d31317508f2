"""Decoded images that are kept in memory."""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

__all__ = ["PixelStore", "Pixels"]

Pixels = NDArray[np.generic]
"""One image, channels x height x width: uint8, or float32 in [0, 1] where it has more than 8 bits."""


class PixelStore:
    """Decoded images by number: those of 8 bits in one block, the others beside it as long as there is room.

    Two threads that put the same image in do the same; one is found only after it is there.
    """

    def __init__(self, count: int, shape: tuple[int, ...], room: int) -> None:
        self._count, self._shape, self._room = count, shape, room
        self._block: NDArray[np.uint8] | None = None
        self._filled = np.zeros(count, bool)
        self._deep: dict[int, Pixels] = {}
        self._lock = Lock()

    def __contains__(self, number: int) -> bool:
        return bool(self._filled[number]) or number in self._deep

    def __getitem__(self, number: int) -> Pixels:
        if number in self._deep:
            return self._deep[number]
        assert self._block is not None
        assert self._filled[number]
        pixels: Pixels = self._block[number]
        return pixels

    def put(self, number: int, pixels: Pixels) -> None:
        """Keep an image; one of more than 8 bits only if it fits."""
        if pixels.dtype == np.uint8:
            with self._lock:
                if self._block is None:
                    # memory is taken by the system when it is written to, not now
                    self._block = np.empty((self._count, *self._shape), np.uint8)
            self._block[number] = pixels
            self._filled[number] = True
            return
        with self._lock:
            if number not in self._deep and pixels.nbytes <= self._room:
                self._room -= pixels.nbytes
                self._deep[number] = pixels
