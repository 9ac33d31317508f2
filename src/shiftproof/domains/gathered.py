"""Several trees of files as one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shiftproof.domains.files import Files, Listing

__all__ = ["GatheredFiles"]


class GatheredFiles:
    """Trees of files side by side, each below its name: real/cat/1.jpg is cat/1.jpg of the tree called real."""

    def __init__(self, root: Path, trees: Mapping[str, Files]) -> None:
        self.root, self._trees = root, dict(trees)

    def names(self) -> list[str]:
        """Relative paths of all files, sorted."""
        return sorted(f"{tree}/{name}" for tree, files in self._trees.items() for name in files.names())

    def listing(self) -> Listing:
        """The same, without states."""
        return Listing(self.names())

    def read(self, name: str) -> bytes:
        """The content of one file."""
        tree, _, rest = name.partition("/")
        return self._trees[tree].read(rest)

    def header(self, name: str) -> bytes:
        """The start of one file."""
        tree, _, rest = name.partition("/")
        return self._trees[tree].header(rest)
