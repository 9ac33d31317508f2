"""Which domains a model has seen, by its record and those of the models that it started from."""

from __future__ import annotations

from typing import Any

from shiftproof.types import Finding

__all__ = ["seen_domains", "seen_target"]


def seen_domains(card: dict[str, Any], data: str) -> set[str]:
    """Domains of the data set called `data` on which a model was trained, or one that it started from."""
    seen: set[str] = set()
    record: dict[str, Any] | None = card
    while record:
        if (record.get("data") or {}).get("name") == data:
            seen.update(record.get("sources") or ())
        record = record.get("initial")
    return seen


def seen_target(name: str, card: dict[str, Any], target: str | None) -> list[Finding]:
    """Whether a model, or the one that it started from, was trained on the target."""
    if target not in seen_domains(card, card["data"]["name"]):
        return []
    message = f"{name} started from a model that was trained on {target}, which is not unseen then"
    return [Finding("warn", "target-seen", message)]
