"""Small pictures of samples, put side by side in one PNG."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from shiftproof.types import FloatArray

__all__ = ["amplify", "pixels_of", "png_of", "strip", "tile"]

Pixels = NDArray[np.float32] | FloatArray
GAP = 4
TILE = 48
_STEPS = (1, 2, 5)


def pixels_of(image: Pixels, third: float = 0.0) -> NDArray[np.uint8]:
    """An image (C x H x W, in [0, 1] or clipped to it) as H x W x 3 bytes.

    One channel is gray, two are red and green beside a constant `third`; of more than three, the first three are shown.
    """
    levels = (np.asarray(image).clip(0, 1) * 255).round().astype(np.uint8)
    if len(levels) == 1:
        levels = np.repeat(levels, 3, 0)
    elif len(levels) == 2:
        levels = np.concatenate([levels, np.full_like(levels[:1], round(255 * third))])
    return np.ascontiguousarray(levels[:3].transpose(1, 2, 0))


def tile(image: Pixels, side: int) -> Image.Image:
    """A square picture of one image, C x H x W in [0, 1]."""
    whole = Image.fromarray(pixels_of(image))
    smaller = max(whole.size) < side
    return ImageOps.pad(whole, (side, side), Image.Resampling.NEAREST if smaller else Image.Resampling.LANCZOS)


def png_of(rows: Sequence[Sequence[Pixels]], side: int = TILE, columns: int | None = None) -> bytes:
    """Rows of images as one PNG file, `columns` wide or as wide as the longest row; gaps show the page behind."""
    wide, step = columns or max(map(len, rows), default=0), side + GAP
    sheet = Image.new("RGBA", (max(1, wide) * step - GAP, max(1, len(rows)) * step - GAP))
    for y, row in enumerate(rows):
        for x, image in enumerate(row):
            sheet.paste(tile(image, side), (x * step, y * step))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def strip(*rows: Sequence[Pixels], side: int = TILE) -> str:
    """Rows of images as a data URI."""
    return f"data:image/png;base64,{base64.b64encode(png_of(rows, side)).decode()}"


def amplify(change: Pixels) -> tuple[FloatArray, float]:
    """A change (C x H x W) around middle gray, and the factor by which it is shown: 1, 2, 5, 10, 20 ... or a half.

    The factor is the largest of these that clips nothing; no change at all is plain gray.

    >>> amplify(np.array([[[0.03, -0.01]]]))
    (array([[[0.8, 0.4]]]), 10.0)
    """
    largest = float(np.abs(change).max(initial=0.0))
    if largest == 0:
        return np.full(np.shape(change), 0.5), 1.0
    power = math.floor(math.log10(0.5 / largest))
    # rounding of the largest factor must not clip either
    fitting = [step * 10.0**e for e in (power - 1, power, power + 1) for step in _STEPS]
    factor = max(one for one in fitting if one * largest <= 0.5 + 1e-9)
    shown: FloatArray = 0.5 + factor * np.asarray(change, np.float64)
    return shown, factor
