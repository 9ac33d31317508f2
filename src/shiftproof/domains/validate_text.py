"""What `validate` says of texts: how long they are, which are empty, which have two labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from shiftproof.domains.domain import Domains
from shiftproof.domains.duplicates import near_duplicate_findings, some
from shiftproof.perturbations.text import parts_of
from shiftproof.types import Finding

__all__ = ["WordCounts", "text_findings", "word_counts"]


@dataclass(frozen=True)
class WordCounts:
    """Words of the texts of a domain (of both texts of a pair together), and how many texts are empty."""

    median: float
    longest: int
    empty: int


def word_counts(texts: Sequence[str]) -> WordCounts:
    """Counts over the texts of a domain; words are what white space separates.

    >>> word_counts(["two words", "", "one"])
    WordCounts(median=1, longest=2, empty=1)
    """
    words = [sum(len(part.split()) for part in parts_of(text)) for text in texts]
    return WordCounts(median(words or [0]), max(words, default=0), sum(map(_is_empty, texts)))


def text_findings(domains: Domains, texts: Mapping[str, Sequence[str]]) -> Iterable[Finding]:
    """Empty texts, texts with two labels, near duplicates."""
    empty = [
        f"{domain.name}: {sample}"
        for domain in domains
        for text, sample in zip(texts[domain.name], domain.ids, strict=True)
        if _is_empty(text)
    ]
    if empty:
        count = "1 text has" if len(empty) == 1 else f"{len(empty)} texts have"
        names = [one.partition(": ")[2] for one in empty]
        yield Finding("warn", "empty-texts", f"{count} no word: {some(empty)}", {"texts": empty, "names": names})
    labels: dict[str, dict[int, str]] = {}
    for domain in domains:
        for text, label, sample in zip(texts[domain.name], domain.labels.tolist(), domain.ids, strict=True):
            labels.setdefault(text, {}).setdefault(label, f"{domain.name}: {sample}")
    torn = [" and ".join(found.values()) for found in labels.values() if len(found) > 1]
    if torn:
        message = f"{len(torn)} texts have more than one label: {some(torn)}"
        names = [one.partition(": ")[2] for found in labels.values() if len(found) > 1 for one in found.values()]
        yield Finding("warn", "two-labels", message, {"texts": torn[:100], "names": names[:100]})
    yield from near_duplicate_findings(domains, texts)


def _is_empty(text: str) -> bool:
    return not all(parts_of(text))
