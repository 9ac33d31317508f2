"""Zip archives that unpack to no more than they say, and say no more than a caller allows."""

from __future__ import annotations

import zipfile

__all__ = ["DAMAGED_ZIP", "open_member", "read_member", "unpacked_size"]

DAMAGED_ZIP = (zipfile.BadZipFile, zipfile.LargeZipFile, OSError, EOFError, ValueError, RuntimeError, KeyError)
"""What reading a damaged, encrypted or forged archive may raise."""
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Kinds of compression that zipfile undoes piece by piece; the others unpack all of a member at once."""


def unpacked_size(archive: zipfile.ZipFile) -> int:
    """Bytes of all members together, as the archive's directory says; `read_member` keeps to that."""
    return sum(info.file_size for info in archive.infolist())


def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> zipfile.ZipExtFile:
    """A member to read piece by piece; ValueError for a compression that can't be undone so."""
    if info.compress_type not in _BOUNDED:
        raise ValueError(f"{info.filename} is compressed in a way that is not read here")
    member = archive.open(info)
    assert isinstance(member, zipfile.ZipExtFile)
    return member


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A whole member, of which never more is unpacked than the directory says; BadZipFile if there is more."""
    with open_member(archive, info) as member:
        # with a number: without one zipfile unpacks up to 2 GB before it looks at what was declared
        content = member.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise zipfile.BadZipFile(f"{info.filename} has {len(content)} bytes, not {info.file_size}")
    return content
