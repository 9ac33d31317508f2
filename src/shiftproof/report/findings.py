"""What a reader should take away, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from shiftproof.report.tables import Row, Table, points
from shiftproof.types import Finding

__all__ = ["shift_findings"]

TELLING = 0.10
"""A gap of this size should not stay hidden in an interval: a wider one decides nothing."""


def shift_findings(table: Table, labels: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    """One finding a model: does its accuracy survive the shift? `labels` counts the classes of every domain."""
    if table.target is None:
        yield Finding(
            "warn", "no-target", "no domain was left out: nothing is known of a domain that was not trained on"
        )
    for row in table.rows:
        yield _finding(row, table, labels)


def _finding(row: Row, table: Table, labels: Mapping[str, Mapping[str, int]]) -> Finding:
    here = mean(row.accuracy[source].value for source in table.sources)
    if all(row.accuracy[source].low <= _constant(source, table.sources, labels) for source in table.sources):
        message = f"{row.model}: {here:.0%} on the domains it was trained on is not better than one answer for all"
        return Finding("warn", "not-learned", message)
    if table.target is None or row.gap is None:
        return Finding("pass", "learned", f"{row.model}: {here:.0%} on the domains it was trained on")
    gap, there, guessing = row.gap, row.accuracy[table.target], 1 / len(labels[table.target])
    measured = f"{row.model}: {here:.0%} on the domains it was trained on, {there.value:.0%} on {table.target}"
    size = f"{points(gap.value).lstrip('+')} points ({points(gap.low)} to {points(gap.high)})"
    if gap.low > 0 and there.high < guessing:
        return Finding("fail", "collapse", f"{measured}: it loses {size} and is worse than guessing ({guessing:.0%})")
    if gap.low > 0:
        return Finding("warn", "gap", f"{measured}: it loses {size}")
    if gap.high > TELLING:
        unit = "groups" if "bootstrap" in there.method else "samples"
        return Finding("warn", "undecided", f"{measured}: too few {unit} to tell, the gap is {size}")
    return Finding("pass", "holds", f"{measured}: no loss is measurable, the gap is {size}")


def _constant(domain: str, sources: Sequence[str], labels: Mapping[str, Mapping[str, int]]) -> float:
    """How often the sources' commonest class is right on a domain."""
    commonest = max(labels[domain], key=lambda label: sum(labels[source][label] for source in sources))
    return labels[domain][commonest] / sum(labels[domain].values())
