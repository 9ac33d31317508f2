"""What is known of a model in memory: the record that lay beside its file, or that of its training.

A model carries its record as `architecture` is carried: copies have it, wrappers do not, for they are other models. It
is believed only while the weights are those that it was written for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from shiftproof.models.hashes import fingerprint

__all__ = ["PHASE", "earlier_phase", "record_of", "set_record"]

PHASE = ("data", "sources", "fingerprints", "objective", "recipe", "seed", "initial")
"""What the record of a model says of another one that it started from."""
_SEEN = ("data", "sources", "fingerprints")
_MOST_PHASES = 16
"""A file of JSON is no deeper than can be read again; of what was before nobody knows."""
_ATTRIBUTE = "_shiftproof_record"


@dataclass(frozen=True)
class _Record:
    weights: str
    card: Mapping[str, Any] = field(repr=False)


def set_record(model: nn.Module, card: Mapping[str, Any]) -> None:
    """Note what is known of a model with the weights that it has now."""
    # not by setattr, which a module may have for its own purposes
    vars(model)[_ATTRIBUTE] = _Record(fingerprint(model), card)


def record_of(model: nn.Module) -> dict[str, Any]:
    """The record of a model; nothing if it has none, or if its weights have changed since."""
    record = vars(model).get(_ATTRIBUTE)
    return dict(record.card) if record is not None and record.weights == fingerprint(model) else {}


def earlier_phase(model: nn.Module) -> dict[str, Any] | None:
    """What a record says of a model that training starts from, as it is now; None if it has no past.

    Of one that had a record for other weights nobody knows what it has seen: nothing is said, not even `sources`. A
    phase on the same data as the one after it is left out: who trains in a loop has a short past.
    """
    if _ATTRIBUTE not in vars(model):
        return None
    known = record_of(model)
    past = known.get("initial")
    while past and all(past.get(key) == known.get(key) for key in _SEEN):
        past = past.get("initial")
    if _phases(past) > _MOST_PHASES:
        past = dict.fromkeys(PHASE)
    told = {key: known.get(key) for key in PHASE} | {"initial": past}
    return {"name": "given", "sha256": fingerprint(model), **told}


def _phases(record: Mapping[str, Any] | None) -> int:
    count = 0
    while record:
        record, count = record.get("initial"), count + 1
    return count
