"""Which kind of file somebody wants to import, by its content."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from shiftproof.errors import DataError, UsageError
from shiftproof.execution import parse_json

__all__ = ["Kind", "kind_of", "read_bytes"]

Kind = Literal["certificates", "robust-flags", "domainbed"]
_NUMPY = (b"\x93NUMPY", b"PK\x03\x04")


def read_bytes(path: Path) -> bytes:
    """The content of a file, or a sentence on why it can't be read."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name the files in it: {path}/*.tsv, or {path}/*/results.jsonl")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"can't read {path}: {error.strerror or error}") from error


def kind_of(name: str, content: bytes) -> Kind:
    """What a file holds; what is none of it is read as a log, whose reader says what is missing."""
    if content.startswith(_NUMPY):
        return "robust-flags"
    if content.lstrip()[:1] not in (b"{", b"["):
        return "certificates"
    first = _json(content.lstrip().partition(b"\n")[0])
    if isinstance(first, dict) and "args" in first and any(re.fullmatch(r"env\d+_(in|out)_acc", key) for key in first):
        return "domainbed"
    whole = _json(content)
    if isinstance(whole, list):
        return "robust-flags"
    if not isinstance(whole, dict):
        raise DataError(f"{name} is neither JSON nor lines of JSON that DomainBed wrote")
    if {"_robust_flags", "robust_flags"} & set(whole):
        return "robust-flags"
    if {"autoattack_acc", "clean_acc"} & set(whole):
        raise DataError(
            f"{name} states accuracies, and not which samples withstood the attack; evidence is about samples: import "
            "the file that AutoAttack writes to its state_path, or an array of flags (.npy)"
        )
    raise DataError(
        f"{name} is JSON of another kind ({', '.join(sorted(whole)[:5])}); what can be imported is an AutoAttack state "
        "with _robust_flags, or results.jsonl of DomainBed"
    )


def _json(text: bytes) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None
