"""The same sample in two domains, or in two parts of one: what was trained on is measured again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from shiftproof.domains.domain import Domains
from shiftproof.domains.shingles import CROWDED, RULE, near_duplicates
from shiftproof.domains.splits import parts
from shiftproof.types import Finding

__all__ = ["duplicate_findings", "near_duplicate_findings", "some"]

PARTS = ("train", "validation", "test")
_EXAMPLES, _KEPT = 3, 100
Place = tuple[str, int]
"""A domain and the number of a part of it."""


def duplicate_findings(domains: Domains, contents: Mapping[str, Sequence[Hashable | None]]) -> Iterable[Finding]:
    """Equal contents (or hashes of them; None is what can't be read) in two places."""
    noun = domains.kind
    places: dict[Hashable, dict[Place, str]] = defaultdict(dict)
    repeated = _repeated(contents.values())
    for domain in domains:
        for content, part, sample in zip(contents[domain.name], parts(domain), domain.ids, strict=True):
            if content in repeated:
                places[content].setdefault((domain.name, int(part)), str(sample))
    leaks: dict[tuple[str, str], list[str]] = defaultdict(list)
    quoted: dict[tuple[str, str], list[str]] = defaultdict(list)
    counts: Counter[tuple[str, str]] = Counter()
    for found in places.values():
        for (first, sample), (second, other) in combinations(sorted(found.items()), 2):
            between = _between(first, second)
            counts[between] += 1
            if counts[between] <= _KEPT:
                leaks[between].append(f"{sample} = {other}")
                quoted[between] += [sample, other]
    for (where, names), examples in leaks.items():
        count = counts[where, names]
        message = f"{count} identical {noun}s {where} in {names}: {some(examples, count)}"
        told = {"pairs": examples, "names": quoted[where, names][: 2 * _EXAMPLES]}
        yield Finding("fail" if where == "across domains" else "warn", "duplicates", message, told)
    if not leaks:
        yield Finding("pass", "duplicates", f"no identical {noun} in two domains or in two parts of a domain")


def _repeated(columns: Iterable[Sequence[Hashable | None]]) -> set[Hashable]:
    """Contents that occur more than once: of a million samples, few are more than looked at."""
    seen, again = set[Hashable](), set[Hashable]()
    for content in (one for column in columns for one in column if one is not None):
        (again if content in seen else seen).add(content)
    return again


def near_duplicate_findings(domains: Domains, texts: Mapping[str, Sequence[str]]) -> Iterable[Finding]:
    """Texts in two places that are nearly the same; not those that are equal, nor those of one group."""
    first: dict[tuple[str, Place], tuple[str, str]] = {}
    for domain in domains:
        # equal ids in two domains mean the same thing measured twice, but not that it may be trained on
        units = [f"{domain.name}/{one}" for one in domain.ids] if domain.groups is None else domain.groups
        for text, part, sample, unit in zip(texts[domain.name], parts(domain), domain.ids, units, strict=True):
            first.setdefault((text, (domain.name, int(part))), (str(sample), str(unit)))
    keys, members = list(first), list(first.values())
    numbers = {place: number for number, place in enumerate(dict.fromkeys(place for _, place in keys))}
    found = near_duplicates([text for text, _ in keys], np.array([numbers[place] for _, place in keys], np.int64))
    leaks: dict[tuple[str, str], list[str]] = defaultdict(list)
    quoted: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one, other in found.pairs.tolist():
        (text, place), (other_text, other_place) = keys[one], keys[other]
        if text != other_text and members[one][1] != members[other][1]:
            leaks[_between(place, other_place)].append(f"{members[one][0]} ~ {members[other][0]}")
            quoted[_between(place, other_place)] += [members[one][0], members[other][0]]
    limits = "" if found.complete else f"; texts that share a sequence with more than {CROWDED} may not be compared"
    for (where, names), examples in leaks.items():
        message = f"{len(examples)} near-duplicate texts {where} in {names}: {some(examples)} ({RULE}{limits})"
        told = {"pairs": examples[:_KEPT], "names": quoted[where, names][: 2 * _EXAMPLES]}
        yield Finding("warn", "near-duplicates", message, told)
    if not leaks:
        message = f"no near-duplicate texts in two domains or in two parts of a domain ({RULE}{limits})"
        yield Finding("pass", "near-duplicates", message)


def some(names: Sequence[str], count: int | None = None) -> str:
    """The first few, and how many more there are, of `count` where not all are named."""
    more = (len(names) if count is None else count) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more} more" if more > 0 else "")


def _between(first: Place, second: Place) -> tuple[str, str]:
    """How two places are related, and the names of their domains."""
    (name, part), (other, other_part) = sorted([first, second])
    if name != other:
        return "across domains", f"{name} and {other}"
    return f"across {PARTS[part]} and {PARTS[other_part]}", name
