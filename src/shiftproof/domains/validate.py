"""Look at data before trusting it: unreadable files, classes that do not match, images that leak between parts."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.folder import Folder, domains_of_files
from shiftproof.domains.index import Index
from shiftproof.domains.registry import data_set, load_domains
from shiftproof.domains.splits import parts
from shiftproof.errors import DataError
from shiftproof.execution import Mode, Progress, progress_bar
from shiftproof.types import Finding

__all__ = ["DomainSummary", "Validation", "class_findings", "validate"]

_EXAMPLES = 3
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class DomainSummary:
    """One row of the table that `validate` prints."""

    name: str
    samples: int
    shape: tuple[int, ...]
    per_class: dict[str, int]
    groups: int | None
    train: int
    validation: int
    test: int
    unreadable: int


@dataclass(frozen=True)
class Validation:
    """What `validate` saw: a summary of each domain, findings, and the ids of samples that can't be read."""

    data: str
    domains: list[DomainSummary]
    findings: list[Finding]
    unreadable: dict[str, list[str]]

    @property
    def failed(self) -> bool:
        """Whether any finding is a failure."""
        return any(finding.level == "fail" for finding in self.findings)


def validate(data: str | Domains, progress: Mode = "off", **options: object) -> Validation:
    """Read every sample of a data set once and report what a careful colleague would ask about."""
    findings: list[Finding] = []
    if isinstance(data, str) and data.startswith("folder:"):
        folder = data_set(data, options)
        assert isinstance(folder, Folder)
        index = folder.index()
        findings += _layout_findings(index)
        domains = domains_of_files(data, Index(index.files, index.rows), folder.size, folder.channels)
    else:
        domains = data if isinstance(data, Domains) else load_domains(data, **options)
    with progress_bar("reading", sum(map(len, domains)), progress) as bar:
        hashes = {domain.name: _hashes(domain, bar) for domain in domains}
    unreadable = {name: [i for i, h in enumerate(found) if h is None] for name, found in hashes.items()}
    findings += _unreadable_findings(domains, unreadable)
    findings += class_findings(domains)
    findings += _leakage_findings(domains, hashes)
    findings += _group_findings(domains)
    summaries = [_summary(domain, len(unreadable[domain.name])) for domain in domains]
    findings += _part_findings(summaries)
    ids = {name: [str(domains[name].ids[i]) for i in found] for name, found in unreadable.items() if found}
    return Validation(domains.name, summaries, findings, ids)


def _layout_findings(index: Index) -> Iterable[Finding]:
    if not index.rows:
        raise DataError(index.problems[0])
    for problem in index.problems:
        yield Finding("fail", "layout", problem)
    if index.ignored:
        yield Finding("warn", "ignored-files", f"{index.ignored} files that are not images were passed over")


def _hashes(domain: Domain, bar: Progress) -> list[str | None]:
    """A hash of each sample's pixels, None where it can't be read."""
    found: list[str | None] = []
    for indices in domain.blocks:
        try:
            found += _hashes_of(domain, indices)
        except DataError:
            found += [_hash_or_none(domain, int(index)) for index in indices]
        bar.advance(len(indices))
    return found


def _hashes_of(domain: Domain, indices: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    return [hashlib.blake2b(image, digest_size=16).hexdigest() for image in domain.inputs.take(indices).numpy()]


def _hash_or_none(domain: Domain, index: int) -> str | None:
    try:
        return _hashes_of(domain, np.array([index]))[0]
    except DataError:
        return None


def _unreadable_findings(domains: Domains, unreadable: dict[str, list[int]]) -> Iterable[Finding]:
    bad = [f"{name}: {domains[name].ids[i]}" for name, found in unreadable.items() for i in found]
    if bad:
        yield Finding("fail", "unreadable", f"{_files(len(bad))} can't be read: {_some(bad)}", {"files": bad})
    else:
        yield Finding("pass", "readable", "every sample can be read")


def class_findings(domains: Domains) -> Iterable[Finding]:
    """Whether all domains have the same classes; by labels alone."""
    present = {domain.name: set(np.unique(domain.labels).tolist()) for domain in domains}
    problems = 0
    for number, label in enumerate(domains.classes):
        having = [name for name, labels in present.items() if number in labels]
        lacking = [name for name in present if name not in having]
        if lacking and len(having) == 1:
            message = f"class {label!r} is in {having[0]!r} only: a model that leaves that domain out can't learn it"
            yield Finding("fail", "class-mismatch", message)
        elif lacking:
            yield Finding("warn", "class-mismatch", f"class {label!r} is missing from {_some(lacking)}")
        problems += bool(lacking)
    if len(domains.classes) < 2:
        message = f"there is a single class ({', '.join(domains.classes)}): nothing to tell apart"
        yield Finding("fail", "one-class", message)
    elif not problems:
        yield Finding("pass", "classes", f"all domains have the same {len(domains.classes)} classes")


def _leakage_findings(domains: Domains, hashes: dict[str, list[str | None]]) -> Iterable[Finding]:
    """Equal pixels in two domains, or in two parts of one domain: what was trained on is measured again."""
    places: dict[str, dict[tuple[str, int], str]] = defaultdict(dict)
    for domain in domains:
        for digest, part, sample in zip(hashes[domain.name], parts(domain), domain.ids, strict=True):
            if digest is not None:
                places[digest].setdefault((domain.name, int(part)), str(sample))
    leaks: dict[tuple[str, str], list[str]] = defaultdict(list)
    for found in places.values():
        for ((name, part), sample), ((other, other_part), other_sample) in combinations(sorted(found.items()), 2):
            where = "across domains" if name != other else f"across {PARTS[part]} and {PARTS[other_part]}"
            leaks[where, name if name == other else f"{name} and {other}"].append(f"{sample} = {other_sample}")
    for (where, names), examples in leaks.items():
        message = f"{len(examples)} identical images {where} in {names}: {_some(examples)}"
        yield Finding("fail" if where == "across domains" else "warn", "duplicates", message, {"pairs": examples[:100]})
    if not leaks:
        yield Finding("pass", "duplicates", "no identical image in two domains or in two parts of a domain")


def _group_findings(domains: Domains) -> Iterable[Finding]:
    grouped = {domain.name: set(domain.groups.tolist()) for domain in domains if domain.groups is not None}
    for (name, groups), (other, other_groups) in combinations(grouped.items(), 2):
        shared = sorted(groups & other_groups)
        if shared:
            message = f"{len(shared)} groups are in both {name!r} and {other!r}: {_some(shared)}"
            yield Finding("warn", "shared-groups", message)


def _part_findings(summaries: list[DomainSummary]) -> Iterable[Finding]:
    for summary in summaries:
        if not summary.train or not summary.validation:
            empty = "validation" if summary.train else "train"
            message = f"the {empty} part of {summary.name!r} is empty: it can be a target, but not a source"
            yield Finding("warn", "empty-part", message)


def _summary(domain: Domain, unreadable: int) -> DomainSummary:
    train, validation, test = np.bincount(parts(domain), minlength=3).tolist()
    groups = None if domain.groups is None else len(set(domain.groups.tolist()))
    return DomainSummary(
        domain.name, len(domain), domain.shape, domain.class_counts, groups, train, validation, test, unreadable
    )


def _some(names: list[str]) -> str:
    more = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more} more" if more > 0 else "")


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
