"""--junit: requirements, claims and findings for continuous integration."""

from __future__ import annotations

from pathlib import Path

__all__ = ["check_junit", "write_junit"]


def check_junit(path: Path | None) -> None:
    """Fail now, not after an hour of work, if the file can't be written."""
    from shiftproof.errors import UsageError
    from shiftproof.execution import check_writable

    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"--junit names the folder {path}; it should name a file, such as {path / 'junit.xml'}")
    check_writable(path.absolute().parent)


def write_junit(path: Path | None, content: bytes) -> None:
    """Write the file if one was asked for, whole or not at all."""
    from shiftproof.execution import write_atomically

    if path is not None:
        write_atomically(path, content)
