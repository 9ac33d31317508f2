"""Measured samples that are, by their content, training samples of another domain: under whatever name or id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shiftproof.domains import Domain, Domains
from shiftproof.domains.splits import parts
from shiftproof.domains.validate import Contents, file_contents, read_contents
from shiftproof.runs.data import StudyData
from shiftproof.runs.spec import Study

__all__ = ["READ_AT_MOST", "Copies", "copies_of_training"]

READ_AT_MOST = 30_000
"""Up to so many images are all read before anything is measured, beyond that those that are measured."""


@dataclass(frozen=True)
class Copies:
    """Measured samples that other domains hold, too, by the name of the domain that is measured.

    Args:
        trained: How many are training samples of each other domain, as we split it.
        shared: Other domains that hold any, in whatever part: who trained a model elsewhere knows nothing of our split.
    """

    trained: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    shared: Mapping[str, frozenset[str]] = field(default_factory=dict)


def copies_of_training(study: Study, data: StudyData) -> Copies:
    """Exact copies only; 'shiftproof validate' finds them in any data.

    Pixels are compared where there are few images and they are read anyway, as they are before a model is measured as
    it is; else files, whose hashes are known. Of other large data nothing is said.
    """
    contents = data.contents or _contents(study, data)
    if contents is None:
        return Copies()
    training = {domain.name: _training(domain, contents[domain.name]) for domain in data.domains}
    trained, shared = {}, {}
    for domain, measured in zip(data.domains, data.measured, strict=True):
        known = dict(zip(domain.ids.tolist(), contents[domain.name], strict=True))
        shown = [known[one] for one in measured.ids.tolist()]
        others = [other.name for other in data.domains if other is not domain]
        counts = {name: sum(one in training[name] for one in shown) for name in others}
        trained[domain.name] = {name: count for name, count in counts.items() if count}
        held = set(shown) - {None}
        shared[domain.name] = frozenset(name for name in others if not held.isdisjoint(contents[name]))
    return Copies(trained, shared)


def _contents(study: Study, data: StudyData) -> Contents | None:
    domains = Domains("all", data.domains)
    unread = not all(domain.inputs.in_memory for domain in domains)
    if domains.kind != "text" and (sum(map(len, domains)) > READ_AT_MOST or (unread and study.trains)):
        return file_contents(domains)
    return read_contents(domains)


def _training(domain: Domain, contents: Sequence[str | bytes | None]) -> set[str | bytes]:
    # not train_part, which refuses a domain that has none
    rows = zip(contents, parts(domain).tolist(), strict=True)
    return {content for content, part in rows if part == 0 and content is not None}
