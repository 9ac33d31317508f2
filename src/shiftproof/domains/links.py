"""A walk through folders that follows links and comes to an end."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from shiftproof.domains.threads import in_threads
from shiftproof.errors import DataError

__all__ = ["ABSENT", "State", "scan_links", "state_in", "state_of"]

MOST_WAYS = 1_000
"""Ways, by links, to one and the same folder; beyond that they are not meant to be data."""
SCANNING = 2
"""Folders that are looked at at a time. More threads wait for the interpreter lock longer than for the disk, even for
one whose entries are not in memory yet."""

State = tuple[int, int, int, int]
"""What tells that a file was changed: size, times of its content and of its entry (in ns), number of its inode."""
ABSENT: State = (-1, -1, -1, -1)
"""Of what is gone, or is no regular file."""


class _Folder(NamedTuple):
    prefix: str
    """Of the names in it: nothing, or a path with a slash at its end."""
    above: tuple[tuple[int, int], ...]


class _Content(NamedTuple):
    here: tuple[int, int]
    folders: list[str]
    files: list[str]
    states: list[State]


def scan_links(root: Path) -> Iterator[tuple[list[str], list[State]]]:
    """Of every folder, names of its files (relative to `root`) and their states; links are followed.

    What is hidden is passed over. A link to a folder that it lies in would never end, and links that double at every
    step would take as long: both are a `DataError`.
    """
    ways: Counter[tuple[int, int]] = Counter()
    level = [_Folder("", ())]
    while level:
        inner = []
        contents = in_threads(lambda folder: _look(f"{root}/{folder.prefix}"), level, SCANNING)
        for folder, content in zip(level, contents, strict=True):
            if content is None:
                continue
            path = root / folder.prefix
            if content.here in folder.above:
                raise DataError(f"{path} is a link to a folder that it lies in, {path.resolve()}: remove the link")
            ways[content.here] += 1
            if ways[content.here] > MOST_WAYS:
                raise DataError(
                    f"links below {root} lead to {path.resolve()} in more than {MOST_WAYS:,} ways: remove some"
                )
            yield [folder.prefix + name for name in content.files], content.states
            above = (*folder.above, content.here)
            inner += [_Folder(f"{folder.prefix}{name}/", above) for name in content.folders]
        level = inner


def state_of(path: str) -> State:
    """What tells that a file was changed; `ABSENT` unless it is a regular one."""
    try:
        return state_in(os.stat(path))  # noqa: PTH116 - a million times
    except (OSError, ValueError):
        return ABSENT


def _look(path: str) -> _Content | None:
    """What is in a folder; None if that can't be told."""
    folders, files, states = list[str](), list[str](), list[State]()
    try:
        found = os.stat(path)  # noqa: PTH116
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                if _is_folder(entry):
                    folders.append(name)
                else:
                    files.append(name)
                    states.append(_entry_state(entry))
    except OSError:
        return None
    return _Content((found.st_dev, found.st_ino), folders, files, states)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _entry_state(entry: os.DirEntry[str]) -> State:
    try:
        return state_in(entry.stat())
    except OSError:
        return ABSENT


def state_in(found: os.stat_result) -> State:
    """The state of a file by what the system says of it."""
    if not stat.S_ISREG(found.st_mode):
        return ABSENT
    # some file systems number inodes beyond what a signed integer holds
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino & (2**63 - 1)
