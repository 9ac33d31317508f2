"""Members of a package's archive, read by name: nothing is unpacked, nothing in it is run."""

from __future__ import annotations

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable

from shiftproof.errors import DataError

__all__ = ["read_members"]

_AR_START, _AR_HEADER = b"!<arch>\n", 60
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError)


def read_members(archive: bytes, names: Iterable[str], shown: str) -> dict[str, bytes]:
    """The content of the members `names` of a .tgz, .deb or .whl; `shown` is what errors call it."""
    try:
        if archive.startswith(b"PK"):
            return _of_zip(archive, names)
        return _of_tar(_deb_data(archive) if archive.startswith(_AR_START) else archive, names)
    except KeyError as error:
        raise DataError(f"{shown} lacks a member that it should have: {error.args[0]}") from error
    except _DAMAGED as error:
        raise DataError(f"{shown} is not a readable archive: {error}") from error


def _of_zip(archive: bytes, names: Iterable[str]) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in names}


def _of_tar(archive: bytes, names: Iterable[str]) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for name in names:
            file = opened.extractfile(name)
            if file is None:
                raise KeyError(f"{name!r} is not a file")
            found[name] = file.read()
    return found


def _deb_data(archive: bytes) -> bytes:
    """The data.tar.* of a Debian package, an ar archive: 60 bytes of header before every member, even offsets."""
    start = len(_AR_START)
    while header := archive[start : start + _AR_HEADER]:
        size = int(header[48:58])
        start += _AR_HEADER
        if header.startswith(b"data.tar"):
            return archive[start : start + size]
        start += size + size % 2
    raise KeyError("data.tar")
