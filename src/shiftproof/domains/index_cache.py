"""What was read of files before, in the user's cache folder; whoever reads it has to see which files have changed."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from shiftproof.errors import StorageError
from shiftproof.execution import write_atomically
from shiftproof.types import IntArray

__all__ = ["Known", "cache_folder", "read_known", "write_known"]

FORMAT = "1"
LARGEST, LARGEST_EACH = 1 << 26, 1 << 10
"""Bytes of an index, and of that more for every file that there is now; it has about a hundred."""
KEPT, KEPT_DAYS, PARTS_DAYS = 64, 180, 1
"""So many indices stay, those that were used last; none that was not used for so long; no half-written file."""
_COLUMNS = {
    "names": ("U8", 0),
    "states": ("I64", 4),
    "shapes": ("I32", 3),
    "digests": ("U8", 16),
    "hashed": ("BOOL", 0),
}
_ERRORS = "surrogatepass"
_DAMAGED = (OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError, safetensors.SafetensorError)


@dataclass(frozen=True, eq=False)
class Known:
    """What was read of files: a row for each.

    Args:
        joined: Their names, with zeros between them, which no name has.
        states: Size, times and inode of each before it was read (N x 4).
        shapes: Channels, height and width (N x 3); zeros where they are not known.
        digests: Hashes of the contents (N x 16) of those that are `hashed` (N).
        stamp: When none of them was read yet, in nanoseconds.
    """

    joined: str
    states: IntArray
    shapes: NDArray[np.int32]
    digests: NDArray[np.uint8]
    hashed: NDArray[np.bool_]
    stamp: int


def cache_folder() -> Path | None:
    """SHIFTPROOF_CACHE, or shiftproof's folder in the user's cache directory; None where there is no home."""
    if told := os.environ.get("SHIFTPROOF_CACHE"):
        return Path(told)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shiftproof"
    except RuntimeError:
        return None


def read_known(source: Path, files: int) -> Known | None:
    """What is kept of the files of a folder, archive or list, which are so many now; None if nothing can be used."""
    place, root = _place(source)
    if place is None:
        return None
    try:
        found = place.stat()
        # anything else could be read for ever
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST + LARGEST_EACH * files:
            return None
        with safetensors.safe_open(place, framework="np") as file:
            facts = file.metadata() or {}
            if facts.get("format") != FORMAT or facts.get("source") != root:
                return None
            slices = {name: file.get_slice(name) for name in _COLUMNS}
            if not _fit({name: (one.get_dtype(), tuple(one.get_shape())) for name, one in slices.items()}):
                return None
            columns = {name: file.get_tensor(name) for name in _COLUMNS}
        if facts.get("seal") != _seal(root, facts["stamp"], columns):
            return None
        joined, stamp = columns.pop("names").tobytes().decode("utf-8", _ERRORS), int(facts["stamp"])
        if joined.count("\0") + 1 != len(columns["hashed"]) or not 0 < stamp <= time.time_ns():
            return None
        known = Known(joined, **columns, stamp=stamp)
    except _DAMAGED:
        return None
    with suppress(OSError):
        # so that it is not taken for one that nobody uses
        os.utime(place)
    return known


def write_known(source: Path, known: Known) -> bool:
    """Keep it, whole or not at all; False where nothing can be written."""
    place, root = _place(source)
    if place is None:
        return False
    columns: dict[str, NDArray[Any]] = {
        "names": np.frombuffer(known.joined.encode("utf-8", _ERRORS), np.uint8),
        "states": known.states,
        "shapes": known.shapes,
        "digests": known.digests,
        "hashed": known.hashed,
    }
    stamp = str(known.stamp)
    try:
        facts = {"format": FORMAT, "source": root, "stamp": stamp, "seal": _seal(root, stamp, columns)}
        write_atomically(place, safetensors.numpy.save(columns, facts))
    except (StorageError, ValueError, safetensors.SafetensorError):
        return False
    _clean_up(place.parent)
    return True


def _place(source: Path) -> tuple[Path | None, str]:
    """Where the index of a folder, archive or list lies, and its path with no link in it, by which it is told apart."""
    folder, root = cache_folder(), os.path.realpath(source)
    encoded = root.encode("utf-8", _ERRORS)
    name = hashlib.blake2b(encoded, digest_size=16).hexdigest()
    # in the header of the file, which is JSON, as it can be written there
    return (None if folder is None else folder / "files" / f"{name}.safetensors"), encoded.hex()


def _fit(columns: dict[str, tuple[str, tuple[int, ...]]]) -> bool:
    """Whether columns are of the types that they should be, and of one length."""
    count = columns["hashed"][1][0] if columns["hashed"][1] else 0
    due: dict[str, tuple[str, tuple[int, ...]]] = {
        name: (kind, (count, width) if width else (count,)) for name, (kind, width) in _COLUMNS.items()
    }
    due["names"] = ("U8", columns["names"][1][:1])
    return count > 0 and columns == due


def _seal(root: str, stamp: str, columns: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.blake2b(f"{FORMAT} {root} {stamp}".encode(), digest_size=16)
    for name in _COLUMNS:
        digest.update(np.ascontiguousarray(columns[name]).data)
    return digest.hexdigest()


_OWN = re.compile(r"[0-9a-f]{32}\.safetensors|\.?[0-9a-f]{32}\.safetensors.*\.part")
"""Names of our own files."""


def _clean_up(folder: Path) -> None:
    """Remove what nobody has used for long, and what was never finished; that something is in the way is no matter."""
    now = time.time()
    with suppress(OSError):
        # the folder may hold what is somebody else's
        own = [path for path in folder.iterdir() if _OWN.fullmatch(path.name) and path.is_file()]
        aged = sorted(((now - path.stat().st_mtime) / 86_400, path) for path in own)
        finished = [(days, path) for days, path in aged if path.suffix == ".safetensors"]
        old = [path for place, (days, path) in enumerate(finished) if place >= KEPT or days > KEPT_DAYS]
        old += [path for days, path in aged if path.suffix == ".part" and days > PARTS_DAYS]
        for path in old:
            with suppress(OSError):
                path.unlink()
