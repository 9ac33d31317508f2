"""Which domains a model has seen, by its record and those of the models that it started from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftproof.domains import Domain
from shiftproof.domains.registry import LOCAL
from shiftproof.runs.sources import GIVEN
from shiftproof.types import Finding

Data = str | Mapping[str, Any]
"""What a record calls a data set: its name, alone or with its options."""
_RENDERED = {"name", "size", "channels"}
"""What changes how samples look, and not which there are."""

__all__ = ["chose_weights", "seen_domains", "seen_in_training", "seen_targets", "was_trained_on"]


def seen_domains(card: Mapping[str, Any], data: Data) -> set[str]:
    """Domains of this data set on which a model was trained, or one that it started from."""
    return {name for record in _phases(card) if _same_data(record, data) for name in record.get("sources") or ()}


def seen_targets(name: str, card: dict[str, Any], data: Data, targets: Sequence[Domain]) -> list[Finding]:
    """The targets that a model, or one that it started from, was trained on, under this name or another."""
    seen = [target.name for target in targets if was_trained_on(card, data, target)]
    message = "{} was trained on {}, or started from a model that was: it is not unseen then"
    return [Finding("warn", "target-seen", message.format(name, target)) for target in seen]


def was_trained_on(card: Mapping[str, Any], data: Data, domain: Domain) -> bool:
    """Whether the record says that a model, or one that it started from, was trained on a domain of this data."""
    known = {hash_ for record in _phases(card) for hash_ in (record.get("fingerprints") or {}).values()}
    return domain.name in seen_domains(card, data) or domain.fingerprint in known


def seen_in_training(card: Mapping[str, Any], data: Data, domain: Domain, part: str) -> str:
    """no | unknown | yes: whether a model was trained on the samples of this part of a domain, by its record.

    A record that names the domains of this data that were trained on says of all others that they were not, and of
    those that the held-out part was not. Without one, or where it began from weights of unknown origin, nobody knows;
    nor where a domain of the same name has other content than the one that was trained on, or is read in another size,
    so that another part of it may have been held out. Folders and tables are yours to rename: of a domain there that
    the record names neither as a source nor as a target nobody knows, either.
    """
    trained = was_trained_on(card, data, domain)
    if trained and part in ("all", "train"):
        return "yes"
    phases = list(_phases(card))
    if any(_has_changed(record, data, domain) for record in phases):
        return "unknown"
    complete = bool(phases) and all(record.get("sources") for record in phases)
    here = [record for record in phases if _same_data(record, data)]
    left_out = {name for record in here for name in _targets(record)}
    known = trained or (bool(here) and (domain.name in left_out or not _is_local(data)))
    return "no" if complete and known else "unknown"


def chose_weights(card: Mapping[str, Any], data: Data, domain: Domain, part: str) -> str:
    """no | unknown | yes: whether the samples of this part of a domain decided which weights of a model were kept.

    Those of a target never do, nor do test rows, nor any where the last step is kept.
    """
    if not was_trained_on(card, data, domain):
        return "no"
    tested = part == "test" or (part == "held-out" and domain.splits is not None and "test" in domain.splits)
    # what a model started from was kept by a rule that its record does not tell
    phases = [record for record in _phases(card) if was_trained_on({**record, "initial": None}, data, domain)]
    rules = {(record.get("selection") or {}).get("rule", "unknown") for record in phases}
    if tested or rules == {"last"}:
        return "no"
    return "yes" if rules - {"last", "unknown"} else "unknown"


def _phases(card: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    record: Mapping[str, Any] | None = card
    while record:
        yield record
        record = record.get("initial")


def _same_data(record: Mapping[str, Any], data: Data) -> bool:
    """Whether a record names this data, with the same options; what was handed over has no name to tell it by."""
    known, asked = record.get("data") or {}, {"name": data} if isinstance(data, str) else data
    if asked["name"] == GIVEN or _place(known.get("name")) != _place(asked["name"]):
        return False
    # another column of a table, or another way to split it, makes other domains of the same rows
    shared = (set(known) & set(asked)) - _RENDERED - {"path"}
    return all(known[option] == asked[option] for option in shared)


def _has_changed(record: Mapping[str, Any], data: Data, domain: Domain) -> bool:
    """Whether a record knows a domain of this data by its name, and its content as another one."""
    before = (record.get("fingerprints") or {}).get(domain.name)
    return before not in (None, domain.fingerprint) and _same_data(record, data)


def _targets(record: Mapping[str, Any]) -> list[str]:
    """The domains that training left out, by a record."""
    target = record.get("target") or []
    return [target] if isinstance(target, str) else list(target)


def _is_local(data: Data) -> bool:
    """Whether data are files of the user's, which may be renamed and changed."""
    name = data if isinstance(data, str) else str(data["name"])
    return name.partition(":")[0] in LOCAL


def _place(data: str | None) -> str | None:
    """A folder or a file is the same from wherever it is named."""
    kind, colon, path = (data or "").partition(":")
    return f"{kind}:{Path(path).resolve()}" if colon and kind in LOCAL else data
