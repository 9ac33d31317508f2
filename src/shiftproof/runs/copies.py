"""Measured samples that are, by their content, training samples of another domain: under whatever name or id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import parts
from shiftproof.domains.validate import read_contents
from shiftproof.runs.data import StudyData
from shiftproof.runs.spec import Study

__all__ = ["READ_AT_MOST", "Copies", "copies_of_training"]

READ_AT_MOST = 30_000
"""Up to so many images are all read before anything is measured, beyond that those that are measured."""
Copies = Mapping[str, Mapping[str, int]]
"""How many measured samples of a domain are training samples of others, by its name and by theirs, where any are."""


def copies_of_training(study: Study, data: StudyData) -> Copies:
    """Exact copies only; 'shiftproof validate' finds them in any data.

    Files of images are read for this where a model is measured as it is, which reads them anyway, and not before every
    training.
    """
    files = not all(domain.inputs.in_memory for domain in data.domains)
    many = sum(map(len, data.domains)) > READ_AT_MOST
    if data.sources.kind != "text" and (many or (files and study.trains)):
        return {}
    contents = data.contents or read_contents(Domains("all", data.domains))
    training = {domain.name: _training(domain, contents[domain.name]) for domain in data.domains}
    found: dict[str, dict[str, int]] = {}
    for domain, measured in zip(data.domains, data.measured, strict=True):
        known = dict(zip(domain.ids.tolist(), contents[domain.name], strict=True))
        shown = [known[one] for one in measured.ids.tolist()]
        counts = {name: sum(one in samples for one in shown) for name, samples in training.items()}
        found[domain.name] = {name: count for name, count in counts.items() if count and name != domain.name}
    return found


def _training(domain: Domain, contents: Sequence[str | None]) -> set[str]:
    # not train_part, which refuses a domain that has none
    rows = zip(contents, parts(domain).tolist(), strict=True)
    return {content for content, part in rows if part == 0 and content is not None}
