"""Scales of a study: one file that fits on this machine, and as its paper has it.

    scales:
      cpu: {cap: 75m, prefix: 1000}
      paper: {seeds: [0, 1, 2, 3, 4], models: {GLEAN: {training: {steps: 5000}}}}

A scale is a set of changes to the rest of the file; the first one is taken unless another is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shiftproof.errors import UnknownName, UsageError

__all__ = ["choose_scale", "scales_of"]


def scales_of(document: Mapping[str, Any]) -> list[str]:
    """The names of the scales that a study file has, the usual one first."""
    scales = document.get("scales")
    return [str(name) for name in scales] if isinstance(scales, Mapping) else []


def choose_scale(document: Mapping[str, Any], scale: str | None = None) -> dict[str, Any]:
    """A study with the changes of one scale made; as it is where there are none."""
    if "scales" not in document:
        if scale is not None:
            raise UsageError(f"the study has no scales, so that there is no {scale!r}; leave --scale out")
        return dict(document)
    scales = document["scales"]
    if not isinstance(scales, Mapping) or not all(one is None or isinstance(one, Mapping) for one in scales.values()):
        raise UsageError(
            f"scales should map names to changes of the study, such as {{cpu: {{cap: 60m}}}}, not {scales!r}"
        )
    names = scales_of(document)
    if not names:
        raise UsageError("scales names none; leave it out")
    chosen = names[0] if scale is None else scale
    if chosen not in names:
        raise UnknownName("scale", chosen, names)
    rest = {key: value for key, value in document.items() if key != "scales"}
    changes = {str(name): change for name, change in scales.items()}
    return {**_merged(rest, changes[chosen] or {}), "scale": chosen}


def _merged(value: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with changes made inside of it; a plain text that gets options becomes its name.

    An option of something that has a name, a model or a data set, is left out if it is null: another may not have it.
    """
    merged = dict(value)
    for key, change in changes.items():
        if change is None and "name" in merged:
            merged.pop(key, None)
            continue
        before = merged.get(key)
        if isinstance(change, Mapping) and isinstance(before, str) and "name" not in change:
            before = {"name": before}
        merged[key] = _merged(before, change) if isinstance(before, Mapping) and isinstance(change, Mapping) else change
    return merged
