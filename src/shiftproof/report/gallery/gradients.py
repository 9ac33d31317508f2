"""Pictures of loss gradients: a few images with what would raise the loss, in rows of models, as one PNG with words."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from shiftproof.display.pictures import Pixels, pixels_of
from shiftproof.evidence import slug
from shiftproof.types import FloatArray

__all__ = ["EDGE", "gradient_path", "gradient_picture", "labelled_sheet", "tile_side"]

EDGE = 96
"""Pixels of a tile, about."""
QUANTILE = 0.99
"""The absolute value that is shown in full: what is larger is clipped."""
MARGIN, HEAD, GAP = 160, 40, 4
"""Pixels of the names of rows, of those of columns, and between tiles."""
_LINES, _LETTERS, _SIZE = 4, 21, 14
_INK, _PAPER = (30, 30, 30), (255, 255, 255)


def gradient_path(folder: Path, domain: str) -> Path:
    """Where a run keeps the picture of loss gradients on samples of a domain."""
    return folder / "figures" / f"gradients-{slug(domain)}.png"


def gradient_picture(gradient: Pixels) -> FloatArray:
    """A gradient (C x H x W) as an image in [0, 1]: 0 is middle gray, the 99th percentile of absolute values is black
    or white, and what is larger is clipped. No gradient at all is plain gray.

    >>> gradient_picture(np.array([[[0.0, -2.0, 2.0, 1.0]]])).round(2).tolist()
    [[[0.5, 0.0, 1.0, 0.75]]]
    """
    values = np.asarray(gradient, np.float64)
    full = float(np.quantile(np.abs(values), QUANTILE))
    # where nearly all values are 0, the largest is shown in full
    full = full or float(np.abs(values).max(initial=0.0))
    shown: FloatArray = 0.5 + 0.5 * np.clip(values / full if full else np.zeros_like(values), -1, 1)
    return shown


def tile_side(shape: Sequence[int]) -> int:
    """Pixels of a tile for images of a shape (C x H x W): small ones are magnified by a whole number."""
    longest = max(shape[-2:])
    return longest * max(1, EDGE // longest) if longest <= EDGE else EDGE


def labelled_sheet(
    rows: Sequence[Sequence[Pixels]], names: Sequence[str], columns: Sequence[str], groups: int = 1
) -> bytes:
    """Rows of images (C x H x W in [0, 1]) of one shape as a PNG on white, with a name beside each row and above each
    column; between `groups` of columns there is more room.
    """
    side = tile_side(rows[0][0].shape)
    step, each = side + GAP, len(columns) // groups
    places = [MARGIN + x * step + (x // each) * 3 * GAP for x in range(len(columns))]
    sheet = Image.new("RGB", (places[-1] + side, HEAD + len(rows) * step - GAP), _PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(_SIZE)
    for left, text in zip(places, columns, strict=True):
        pen.multiline_text((left + side / 2, HEAD / 2), text, _INK, font, anchor="mm", align="center", spacing=2)
    for y, (row, name) in enumerate(zip(rows, names, strict=True)):
        top = HEAD + y * step
        lines = textwrap.wrap(name, _LETTERS, max_lines=_LINES, placeholder=" ...")
        pen.multiline_text((GAP, top + side / 2), "\n".join(lines), _INK, font, anchor="lm", spacing=2)
        for left, image in zip(places, row, strict=True):
            sheet.paste(_tile(image, side), (left, top))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _tile(image: Pixels, side: int) -> Image.Image:
    """An image as a square tile, white beside it; third channels of two are middle gray."""
    whole = Image.fromarray(pixels_of(image, third=0.5))
    scale = side / max(whole.size)
    size = (max(1, round(whole.width * scale)), max(1, round(whole.height * scale)))
    how = Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.LANCZOS
    square = Image.new("RGB", (side, side), _PAPER)
    square.paste(whole.resize(size, how), ((side - size[0]) // 2, (side - size[1]) // 2))
    return square
