"""Labelled texts before it is known how wide the rows of their data set are, and domains made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.texts import ROOM, TextInputs
from shiftproof.perturbations.text import plain

__all__ = ["TextRows", "text_domains"]


@dataclass(frozen=True)
class TextRows:
    """The columns of a domain: texts (or pairs of texts), labels, stable ids, and perhaps groups and splits."""

    texts: Sequence[tuple[str, ...]]
    labels: Sequence[float]
    ids: Sequence[str]
    groups: Sequence[str] | None = None
    splits: Sequence[str] | None = None


def text_domains(name: str, classes: Sequence[str], domains: Mapping[str, TextRows]) -> Domains:
    """A data set of these domains, whose rows are as wide as the longest text of all.

    >>> rows = TextRows([("so good",), ("bad",)], [1, 0], ["0", "1"])
    >>> text_domains("reviews", ["negative", "positive"], {"books": rows}).shape
    (71,)
    """
    kept = {domain: [plain(*one) for one in rows.texts] for domain, rows in domains.items()}
    width = ROOM + max((len(text.encode()) for texts in kept.values() for text in texts), default=1)
    return Domains(
        name,
        [
            Domain.from_inputs(
                domain,
                TextInputs(kept[domain], width),
                rows.labels,
                classes,
                ids=rows.ids,
                groups=rows.groups,
                splits=rows.splits,
            )
            for domain, rows in domains.items()
        ],
    )
