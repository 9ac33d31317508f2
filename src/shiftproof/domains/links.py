"""A walk through folders that follows links and comes to an end."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from shiftproof.errors import DataError

__all__ = ["walk_links"]

MOST_WAYS = 1_000
"""Ways, by links, to one and the same folder; beyond that they are not meant to be data."""


def walk_links(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Folder, names of its folders, names of its files, as `os.walk` gives them, with links to folders followed.

    A link to a folder that it lies in would never end, and links that double at every step would take as long: both are
    a `DataError`.
    """
    above: dict[Path, tuple[tuple[int, int], ...]] = {root: ()}
    ways: Counter[tuple[int, int]] = Counter()
    for name, folders, files in os.walk(root, followlinks=True):
        folder = Path(name)
        state = folder.stat()
        here = (state.st_dev, state.st_ino)
        outer = above.pop(folder, ())
        if here in outer:
            raise DataError(f"{folder} is a link to a folder that it lies in, {folder.resolve()}: remove the link")
        ways[here] += 1
        if ways[here] > MOST_WAYS:
            raise DataError(
                f"links below {root} lead to {folder.resolve()} in more than {MOST_WAYS:,} ways: remove some"
            )
        yield folder, folders, files
        above |= {folder / inner: (*outer, here) for inner in folders}
