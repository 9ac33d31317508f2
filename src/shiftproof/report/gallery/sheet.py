"""A few images of a domain side by side, as one PNG."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from shiftproof.domains import Domain
from shiftproof.report.gallery.pictures import pixels_of

__all__ = ["contact_sheet"]

TILE = 56
COLUMNS = 8
CLASSES = 4
GAP = 4


def contact_sheet(domain: Domain) -> bytes:
    """A PNG: a row for each of the first classes with its first samples; two channels are shown as red and green."""
    rows = []
    for label in range(min(CLASSES, len(domain.classes))):
        # a class that the domain lacks has an empty row, so that rows mean the same in every domain
        indices = np.flatnonzero(domain.labels == label)[:COLUMNS]
        rows.append([_tile(image) for image in domain.inputs.take(indices).numpy()])
    step = TILE + GAP
    sheet = Image.new("RGB", (COLUMNS * step - GAP, max(1, len(rows)) * step - GAP), "white")
    for y, row in enumerate(rows):
        for x, tile in enumerate(row):
            sheet.paste(tile, (x * step, y * step))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _tile(image: NDArray[np.float32]) -> Image.Image:
    whole = Image.fromarray(pixels_of(image))
    small = max(whole.size) < TILE
    return ImageOps.pad(whole, (TILE, TILE), Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)
