"""A few images of a domain side by side, as one PNG."""

from __future__ import annotations

import numpy as np

from shiftproof.display import png_of
from shiftproof.domains import Domain

__all__ = ["contact_sheet"]

TILE = 56
COLUMNS = 8
CLASSES = 4


def contact_sheet(domain: Domain) -> bytes:
    """A PNG: a row for each of the first classes with its first samples; two channels are shown as red and green."""
    rows = []
    for label in range(min(CLASSES, len(domain.classes))):
        # a class that the domain lacks has an empty row, so that rows mean the same in every domain
        indices = np.flatnonzero(domain.labels == label)[:COLUMNS]
        rows.append(list(domain.inputs.take(indices).numpy()))
    return png_of(rows, TILE, COLUMNS)
