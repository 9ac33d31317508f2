"""Which domains a model has seen, by its record and those of the models that it started from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shiftproof.domains import Domain
from shiftproof.types import Finding

__all__ = ["seen_domains", "seen_target"]


def seen_domains(card: dict[str, Any], data: str) -> set[str]:
    """Domains of the data set called `data` on which a model was trained, or one that it started from."""
    return {
        name
        for record in _phases(card)
        if _place((record.get("data") or {}).get("name")) == _place(data)
        for name in record.get("sources") or ()
    }


def seen_target(name: str, card: dict[str, Any], data: str, target: Domain | None) -> list[Finding]:
    """Whether a model, or one that it started from, was trained on the target, under this name or another."""
    if target is None:
        return []
    known = {hash_ for record in _phases(card) for hash_ in (record.get("fingerprints") or {}).values()}
    if target.name not in seen_domains(card, data) and target.fingerprint not in known:
        return []
    message = f"{name} was trained on {target.name}, or started from a model that was: it is not unseen then"
    return [Finding("warn", "target-seen", message)]


def _phases(card: dict[str, Any]) -> Iterator[dict[str, Any]]:
    record: dict[str, Any] | None = card
    while record:
        yield record
        record = record.get("initial")


def _place(data: str | None) -> str | None:
    """A folder is the same from wherever it is named."""
    if data is None or not data.startswith("folder:"):
        return data
    return f"folder:{Path(data.removeprefix('folder:')).resolve()}"
