"""Small pictures of samples, put side by side in one PNG."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

__all__ = ["difference", "png_of", "strip", "tile"]

GAP = 4
TILE = 48


def tile(image: NDArray[np.floating], side: int) -> Image.Image:
    """A square picture of one image, C x H x W in [0, 1]; two channels are shown as red and green."""
    pixels = (image.clip(0, 1) * 255).round().astype(np.uint8)
    if len(pixels) == 1:
        pixels = np.repeat(pixels, 3, 0)
    elif len(pixels) == 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    whole = Image.fromarray(np.ascontiguousarray(pixels[:3].transpose(1, 2, 0)))
    smaller = max(whole.size) < side
    return ImageOps.pad(whole, (side, side), Image.Resampling.NEAREST if smaller else Image.Resampling.LANCZOS)


def png_of(rows: Sequence[Sequence[NDArray[np.floating]]], side: int = TILE, columns: int | None = None) -> bytes:
    """Rows of images as one PNG file, `columns` wide or as wide as the longest row; gaps show the page behind."""
    wide, step = columns or max(map(len, rows), default=0), side + GAP
    sheet = Image.new("RGBA", (max(1, wide) * step - GAP, max(1, len(rows)) * step - GAP))
    for y, row in enumerate(rows):
        for x, image in enumerate(row):
            sheet.paste(tile(image, side), (x * step, y * step))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def strip(*rows: Sequence[NDArray[np.floating]], side: int = TILE) -> str:
    """Rows of images as a data URI."""
    return f"data:image/png;base64,{base64.b64encode(png_of(rows, side)).decode()}"


def difference(before: NDArray[np.floating], after: NDArray[np.floating]) -> tuple[NDArray[np.floating], float]:
    """What was added to an image as a picture, nothing as middle gray, and the factor by which it is enlarged.

    >>> picture, factor = difference(np.zeros((1, 1, 2)), np.array([[[0.0, 0.1]]]))
    >>> picture.round(2).tolist(), round(factor, 2)
    ([[[0.5, 1.0]]], 5.0)
    """
    change = after.astype(np.float64) - before
    largest = float(np.abs(change).max(initial=0.0))
    factor = 0.5 / largest if largest else 1.0
    return 0.5 + factor * change, factor
