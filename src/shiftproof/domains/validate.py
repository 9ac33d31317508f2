"""Look at data before trusting it: unreadable files, classes that do not match, samples that leak between parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.duplicates import duplicate_findings, some
from shiftproof.domains.folder import Folder, domains_of_files
from shiftproof.domains.images import FileInputs
from shiftproof.domains.inputs import original_of
from shiftproof.domains.registry import data_set
from shiftproof.domains.splits import parts
from shiftproof.domains.table import Table, domains_of_table
from shiftproof.domains.table_rows import distinct_rows
from shiftproof.domains.texts import texts_of
from shiftproof.domains.threads import in_threads, read_ahead
from shiftproof.domains.validate_text import WordCounts, text_findings, word_counts
from shiftproof.errors import DataError
from shiftproof.execution import Mode, Progress, progress_bar, showing_progress
from shiftproof.types import Finding, IntArray

__all__ = [
    "Contents",
    "DomainSummary",
    "Validation",
    "class_findings",
    "file_contents",
    "read_contents",
    "validate",
    "validate_contents",
]

Contents = Mapping[str, Sequence[str | bytes | None]]
"""What the samples of each domain hold, by its name: texts, or hashes of pixels or files; None if unreadable."""


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
    words: WordCounts | None = None


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
    with showing_progress(progress):
        domains, findings = (data, []) if isinstance(data, Domains) else _load(data, options)
    return validate_contents(domains, read_contents(domains, progress), findings)


def read_contents(domains: Domains, progress: Mode = "off") -> Contents:
    """Read every sample once."""
    if domains.kind == "text":
        return {domain.name: texts_of(domain) for domain in domains}
    with progress_bar("reading", sum(map(len, domains)), progress) as bar:
        return {domain.name: _hashes(domain, bar) for domain in domains}


def validate_contents(domains: Domains, contents: Contents, findings: Sequence[Finding] = ()) -> Validation:
    """What there is to say of samples that were read."""
    findings = list(findings)
    texts = {domain.name: texts_of(domain) for domain in domains if domain.kind == "text"}
    unreadable = {name: [i for i, h in enumerate(found) if h is None] for name, found in contents.items()}
    findings += _unreadable_findings(domains, unreadable)
    findings += class_findings(domains)
    findings += duplicate_findings(domains, contents)
    findings += text_findings(domains, texts) if texts else []
    findings += _group_findings(domains)
    summaries = [_summary(domain, len(unreadable[domain.name]), texts.get(domain.name)) for domain in domains]
    findings += _part_findings(summaries)
    ids = {name: [str(domains[name].ids[i]) for i in found] for name, found in unreadable.items() if found}
    return Validation(domains.name, summaries, findings, ids)


def _load(name: str, options: Mapping[str, object]) -> tuple[Domains, list[Finding]]:
    """A data set; of your own data, what can be used of it, and what is wrong with the rest."""
    data = data_set(name, options)
    if isinstance(data, Folder):
        index = data.index()
        findings = _layout_findings(len(index), index.problems)
        if index.ignored:
            message = f"{index.ignored} files that are not images were passed over"
            findings.append(Finding("warn", "ignored-files", message))
        return domains_of_files(name, replace(index, problems=()), data.size, data.channels), findings
    if isinstance(data, Table):
        table = data.index()
        findings = _layout_findings(len(table.rows), table.problems)
        return domains_of_table(name, distinct_rows(table.rows), numbers=data.labels == "numbers"), findings
    return data.load(), []


def _layout_findings(rows: int, problems: Sequence[str]) -> list[Finding]:
    if not rows:
        raise DataError(problems[0])
    return [Finding("fail", "layout", problem) for problem in problems]


def file_contents(domains: Domains) -> Contents | None:
    """Hashes of the files that samples are read from, which fingerprints need anyway; None if they are in no files.

    Equal files are equal samples. Equal samples may be in files that differ, which `read_contents` finds.
    """
    found: dict[str, list[bytes]] = {}
    for domain in domains:
        inputs, chosen = original_of(domain.inputs, np.arange(len(domain)))
        if not isinstance(inputs, FileInputs):
            return None
        found[domain.name] = [one.tobytes() for one in inputs.digests(chosen)]
    return found


def _hashes(domain: Domain, bar: Progress) -> list[bytes | None]:
    """A hash of each sample's pixels, None where it can't be read; the next block is read while one is hashed."""
    found: list[bytes | None] = []

    def read(indices: IntArray) -> Tensor | None:
        try:
            return domain.inputs.take(indices)
        except DataError:
            return None

    for indices, inputs in zip(domain.blocks, read_ahead(read, domain.blocks), strict=True):
        if inputs is None:
            found += [None if (one := read(np.array([i]))) is None else _hash(one[0].numpy()) for i in indices]
        else:
            found += in_threads(_hash, list(inputs.numpy()))
        bar.advance(len(indices))
    return found


def _hash(sample: NDArray[np.float32]) -> bytes:
    return hashlib.blake2b(sample.data, digest_size=16).digest()


def _unreadable_findings(domains: Domains, unreadable: dict[str, list[int]]) -> Iterable[Finding]:
    bad = [f"{name}: {domains[name].ids[i]}" for name, found in unreadable.items() for i in found]
    if bad:
        names = [str(domains[name].ids[i]) for name, found in unreadable.items() for i in found]
        message = f"{_files(len(bad))} can't be read: {some(bad)}"
        yield Finding("fail", "unreadable", message, {"files": bad, "names": names})
    else:
        yield Finding("pass", "readable", "every sample can be read")


def class_findings(domains: Domains) -> Iterable[Finding]:
    """Whether all domains have the same classes; by labels alone."""
    if domains.is_regression:
        yield _range_finding(domains)
        return
    present = {domain.name: set(np.unique(domain.labels).tolist()) for domain in domains}
    problems = 0
    for number, label in enumerate(domains.classes):
        having = [name for name, labels in present.items() if number in labels]
        lacking = [name for name in present if name not in having]
        if lacking and len(having) == 1:
            message = f"class {label!r} is in {having[0]!r} only: a model that leaves that domain out can't learn it"
            yield Finding("fail", "class-mismatch", message)
        elif lacking:
            yield Finding("warn", "class-mismatch", f"class {label!r} is missing from {some(lacking)}")
        problems += bool(lacking)
    if len(domains.classes) < 2:
        message = f"there is a single class ({', '.join(domains.classes)}): nothing to tell apart"
        yield Finding("fail", "one-class", message)
    elif not problems:
        yield Finding("pass", "classes", f"all domains have the same {len(domains.classes)} classes")


def _range_finding(domains: Domains) -> Finding:
    """Between which numbers labels lie; a domain where all are equal tells nothing."""
    spans = {domain.name: (float(domain.labels.min()), float(domain.labels.max())) for domain in domains if len(domain)}
    flat = [name for name, (low, high) in spans.items() if low == high]
    if flat:
        return Finding("fail", "one-number", f"all labels of {some(flat)} are the same number: nothing to predict")
    shown = "; ".join(f"{name}: {low:g} to {high:g}" for name, (low, high) in spans.items())
    return Finding("pass", "numbers", f"labels are numbers to predict, {shown}")


def _group_findings(domains: Domains) -> Iterable[Finding]:
    grouped = {domain.name: set(domain.groups.tolist()) for domain in domains if domain.groups is not None}
    for (name, groups), (other, other_groups) in combinations(grouped.items(), 2):
        shared = sorted(groups & other_groups)
        if shared:
            message = f"{len(shared)} groups are in both {name!r} and {other!r}: {some(shared)}"
            yield Finding("warn", "shared-groups", message, {"names": shared})


def _part_findings(summaries: list[DomainSummary]) -> Iterable[Finding]:
    for summary in summaries:
        if not summary.train or not summary.validation:
            empty = "validation" if summary.train else "train"
            message = f"the {empty} part of {summary.name!r} is empty: it can be a target, but not a source"
            yield Finding("warn", "empty-part", message)


def _summary(domain: Domain, unreadable: int, texts: Sequence[str] | None) -> DomainSummary:
    train, validation, test = np.bincount(parts(domain), minlength=3).tolist()
    groups = None if domain.groups is None else len(set(domain.groups.tolist()))
    return DomainSummary(
        domain.name,
        len(domain),
        domain.shape,
        domain.class_counts,
        groups,
        train,
        validation,
        test,
        unreadable,
        None if texts is None else word_counts(texts),
    )


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"
