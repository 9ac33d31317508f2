"""What is known of the samples that a run measures: how they were chosen, and whether a model was trained on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shiftproof.domains import Domain
from shiftproof.runs.copies import Copies
from shiftproof.runs.data import StudyData
from shiftproof.runs.seen import chose_weights, seen_in_training, was_trained_on
from shiftproof.runs.sources import as_recorded
from shiftproof.runs.spec import Study
from shiftproof.types import Finding

__all__ = ["copied_findings", "known_of_samples"]


def known_of_samples(
    data: StudyData, study: Study, card: Mapping[str, Any], copies: Copies
) -> dict[str, dict[str, str]]:
    """Of each domain, for one model: `sampled` (all | simple | balanced), and whether samples were `seen_in_training`
    and `chose_weights` (no | unknown | yes).
    """
    return {
        domain.name: {
            "sampled": data.sampled(domain.name),
            "seen_in_training": _seen(data, study, card, domain, copies),
            "chose_weights": _chose(data, study, card, domain, copies),
        }
        for domain in data.domains
    }


def copied_findings(
    name: str, data: StudyData, study: Study, card: Mapping[str, Any], copies: Copies
) -> Iterator[Finding]:
    """Domains of which some measured samples are copies of what a model was trained on elsewhere."""
    trained = _trained(data, study, card)
    for domain in data.measured:
        for source, count in copies.trained.get(domain.name, {}).items():
            if source in trained:
                message = f"{count} of {len(domain)} measured samples of {domain.name} are copies of training samples"
                yield Finding("warn", "trained-copies", f"{message} of {source}, on which {name} was trained")


def _seen(data: StudyData, study: Study, card: Mapping[str, Any], domain: Domain, copies: Copies) -> str:
    if set(copies.trained.get(domain.name, ())) & _trained(data, study, card):
        return "yes"
    seen = seen_in_training(card, as_recorded(study.data), domain, data.part(domain.name))
    if seen == "unknown" and domain in data.targets:
        # who names a target says that training left it out; a record, or copies of a source, may know better
        return "unknown" if copies.shared.get(domain.name, frozenset()) & set(data.sources.names) else "no"
    return seen


def _chose(data: StudyData, study: Study, card: Mapping[str, Any], domain: Domain, copies: Copies) -> str:
    """Whether samples, or copies of them in a domain that was trained on, decided which weights were kept."""
    known = as_recorded(study.data)
    chose = chose_weights(card, known, domain, data.part(domain.name))
    shared = copies.shared.get(domain.name, frozenset())
    others = [one for one in data.domains if one.name in shared and one is not domain]
    copied = {chose_weights(card, known, one, "validation") for one in others} - {"no"}
    return "unknown" if chose == "no" and copied else chose


def _trained(data: StudyData, study: Study, card: Mapping[str, Any]) -> set[str]:
    return {domain.name for domain in data.domains if was_trained_on(card, as_recorded(study.data), domain)}
