"""Names of domains in a study: one, several with commas between them, or a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from shiftproof.errors import UsageError

__all__ = ["Names", "TargetNames", "check_targets", "to_plain_targets"]


def check_targets(targets: Sequence[str], sources: Sequence[str] = ()) -> None:
    """Refuse a target that is named twice, and one that is trained on."""
    for place, name in enumerate(targets):
        if name in targets[:place]:
            raise UsageError(f"the target {name!r} is named twice; name each target once")
        if name in sources:
            raise UsageError(f"{name!r} is both source and target; a target is what training leaves out")


def to_plain_targets(targets: Sequence[str] | None) -> str | list[str] | None:
    """Targets as a record writes them: none, one name, or a list, from which a study makes the same again."""
    if not targets:
        return None
    # a text with a comma would be read as several names
    return targets[0] if len(targets) == 1 and "," not in targets[0] else list(targets)


def _from_commas(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _from_one_or_several(value: Any) -> Any:
    """None, or names in a tuple; YAML reads some names as numbers."""
    several = () if value is None else _from_commas(value)
    several = several if isinstance(several, list | tuple) else (several,)
    names = (str(one) if isinstance(one, int | float) and not isinstance(one, bool) else one for one in several)
    return tuple(names) or None


Names = Annotated[tuple[str, ...], BeforeValidator(_from_commas)]
TargetNames = Annotated[
    tuple[str, ...] | None, BeforeValidator(_from_one_or_several), PlainSerializer(to_plain_targets)
]
