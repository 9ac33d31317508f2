"""Names that a shell completes: read from the sources, because importing all methods takes seconds."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KINDS", "complete", "complete_study", "known_names"]

_ROOT = Path(__file__).parents[1]
KINDS = {
    "domains": ("DOMAINS", "domains", "shiftproof.domains"),
    "models": ("MODELS", "models", "shiftproof.models"),
    "objectives": ("OBJECTIVES", "objectives", "shiftproof.objectives"),
    "noise": ("NOISES", "perturbations", "shiftproof.noise"),
    "corruptions": ("CORRUPTIONS", "perturbations", "shiftproof.corruptions"),
    "attacks": ("ATTACKS", "attacks", "shiftproof.attacks"),
    "certifiers": ("CERTIFIERS", "certification", "shiftproof.certifiers"),
    "probes": ("PROBES", "probes", "shiftproof.probes"),
    "sections": ("SECTIONS", "report", "shiftproof.report_sections"),
}
"""By what `shiftproof ls` calls it: the catalogue, the folder with its methods, and the group of entry points."""


def known_names(kind: str) -> list[str]:
    """The names of one kind, those of installed plug-ins included; nothing of them is imported."""
    if kind == "studies":
        return sorted(path.stem for path in (_ROOT / "runs" / "library").glob("*.yaml"))
    catalogue, folder, group = KINDS[kind]
    registered = re.compile(rf'^@{catalogue}\.register\(\s*"([^"]+)"', re.MULTILINE)
    found = {name for path in (_ROOT / folder).rglob("*.py") for name in registered.findall(path.read_text("utf-8"))}
    return sorted(found | {point.name for point in entry_points(group=group)})


def complete(kind: str) -> Callable[[str], list[str]]:
    """What completes an option that takes one name of a kind."""

    def names(incomplete: str) -> list[str]:
        return [name for name in known_names(kind) if name.startswith(incomplete)]

    return names


def complete_study(incomplete: str) -> list[str]:
    """Studies by name, and YAML files from where the shell stands."""
    files = sorted(str(path) for path in Path().glob("*.yaml"))
    return [name for name in [*known_names("studies"), *files] if name.startswith(incomplete)]
