"""Arguments of calls from Python, checked where they come in: each with a sentence that quotes what was seen."""

from __future__ import annotations

import os
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, get_args

from shiftproof.errors import UsageError
from shiftproof.execution.progress import Mode

__all__ = ["as_list", "as_path", "check_count", "check_progress", "check_running", "check_text"]


def check_running(workers: object, progress: object) -> None:
    """Refuse a number of processes, or a way to show progress, that is none."""
    check_count("workers", workers)
    check_progress(progress)


def check_count(name: str, value: object) -> None:
    """Refuse what is no whole number of at least 1.

    >>> check_count("limit", "5")
    Traceback (most recent call last):
    shiftproof.errors.UsageError: limit is '5'; it should be a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise UsageError(f"{name} is {value!r}; it should be a whole number of at least 1")


def check_progress(value: object) -> None:
    """Refuse what is no way to show progress."""
    if value not in get_args(Mode):
        raise UsageError(f"progress is {value!r}; it should be {', '.join(map(repr, get_args(Mode)))}")


def check_text(name: str, value: object, example: str) -> None:
    """Refuse what is no text, or an empty one."""
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name} is {value!r}; it should be a text such as {example!r}")


def as_path(name: str, value: object) -> Path:
    """A file or a folder."""
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} is {value!r}; it should be a path")
    return Path(value)


def as_list(name: str, value: Any, example: str) -> list[Any]:
    """Several things in a list: texts and numbers count as one; `example` is what it could be."""
    if isinstance(value, str | Real):
        return [value]
    if not isinstance(value, Iterable):
        raise UsageError(f"{name} is {value!r}; it should be a list such as {example}")
    return list(value)
