"""What a reader should take away, as findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from shiftproof.evidence import metrics, seen_note, worst_seen
from shiftproof.report.certified import Series
from shiftproof.report.tables import Row, Table, points
from shiftproof.types import Finding

__all__ = ["certificate_findings", "shift_findings"]

TELLING = 0.10
"""A gap of this size should not stay hidden in an interval: a wider one decides nothing."""


def shift_findings(table: Table, labels: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    """One finding a model: does its accuracy survive the shift? `labels` counts the classes of every domain."""
    if table.target is None and table.rows:
        yield Finding(
            "warn", "no-target", "no domain was left out: nothing is known of a domain that was not trained on"
        )
    for row in table.rows:
        yield _finding(row, table, labels)


def _finding(row: Row, table: Table, labels: Mapping[str, Mapping[str, int]]) -> Finding:
    here = mean(row.accuracy[source].value for source in table.sources)
    note = f" ({row.note()})" if row.note() else ""
    if all(row.accuracy[source].low <= _constant(source, table.sources, labels) for source in table.sources):
        message = (
            f"{row.model}: {here:.0%} on the domains it was trained on{note} is not better than one answer for all"
        )
        return Finding("warn", "not-learned", message)
    if table.target is None or row.gap is None:
        return Finding("pass", "learned", f"{row.model}: {here:.0%} on the domains it was trained on{note}")
    gap, there, guessing = row.gap, row.accuracy[table.target], 1 / len(labels[table.target])
    measured = f"{row.model}: {here:.0%} on the domains it was trained on{note}, {there.value:.0%} on {table.target}"
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


def certificate_findings(
    series: Sequence[Series], sources: Sequence[str], target: str | None, seed: int = 0
) -> Iterator[Finding]:
    """One finding a model and setting: does the guarantee survive the shift?"""
    for model, setting in dict.fromkeys((one.model, one.setting) for one in series):
        mine = {one.domain: one for one in series if (one.model, one.setting) == (model, setting)}
        radius = next(iter(mine.values())).scale
        here = [mine[source] for source in sources if source in mine]
        if target not in mine or not here:
            continue
        there = mine[target]
        what = f"right and certified within a radius of {radius:g} ({there.norm}, {there.units})"
        note = seen_note(worst_seen(one.seen for one in [*here, there]))
        trained = f"the domains it was trained on{f' ({note})' if note else ''}"
        measured = (
            f"{model}, {there.title}: {mean(one.at(radius).value for one in here):.0%} of the images of "
            f"{trained} are {what}, {there.at(radius).value:.0%} of those of {target}"
        )
        if not there.at(radius).value and not any(one.at(radius).value for one in here):
            yield Finding(
                "warn",
                "guarantee-none",
                f"{model}, {there.title}: not one image is right and certified within {radius:g}",
            )
            continue
        gap = metrics.gap([one.sample(radius) for one in here], there.sample(radius), seed)
        size = f"{points(gap.value).lstrip('+')} points ({points(gap.low)} to {points(gap.high)})"
        if gap.low > 0:
            yield Finding("warn", "guarantee-shrinks", f"{measured}: the guarantee loses {size}")
        elif gap.high > TELLING:
            yield Finding("warn", "guarantee-undecided", f"{measured}: too few samples to tell, the gap is {size}")
        else:
            yield Finding("pass", "guarantee-holds", f"{measured}: no loss is measurable, the gap is {size}")
