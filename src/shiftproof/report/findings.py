"""What a reader should take away, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import mean

from shiftproof.report.tables import Row, Table, points
from shiftproof.types import Finding

__all__ = ["label_findings", "shift_findings"]

TELLING = 0.10
"""A gap of this size should not stay hidden in an interval: a wider one decides nothing."""


def shift_findings(table: Table, classes: int) -> Iterator[Finding]:
    """One finding a model: does its accuracy survive the shift? Without a target there is nothing to say."""
    for row in table.rows:
        if table.target is not None and row.gap is not None:
            yield _finding(row, table, table.target, 1 / classes)


def label_findings(labels: Mapping[str, Mapping[str, int]], target: str | None) -> Iterator[Finding]:
    """Classes of the target that no source has; `labels` counts the samples of each class in each domain."""
    for label, count in labels.get(target or "", {}).items():
        if count and not any(counts[label] for domain, counts in labels.items() if domain != target):
            yield Finding("warn", "unseen-class", f"class {label!r} of {target} is in no source: no model can learn it")


def _finding(row: Row, table: Table, target: str, guessing: float) -> Finding:
    assert row.gap is not None
    gap, there = row.gap, row.accuracy[target]
    here = mean(row.accuracy[source].value for source in table.sources)
    measured = f"{row.model}: {here:.0%} on the domains it was trained on, {there.value:.0%} on {target}"
    size = f"{points(gap.value).lstrip('+')} points ({points(gap.low)} to {points(gap.high)})"
    if gap.low > 0 and there.high < guessing:
        return Finding("fail", "collapse", f"{measured}: it loses {size} and is worse than guessing ({guessing:.0%})")
    if gap.low > 0:
        return Finding("warn", "gap", f"{measured}: it loses {size}")
    if gap.high > TELLING:
        return Finding("warn", "undecided", f"{measured}: too few samples to tell, the gap is {size}")
    return Finding("pass", "holds", f"{measured}: no loss is measurable, the gap is {size}")
