"""What a reader should take away, as findings: pass, warn or fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from shiftproof.evidence import seen_note, worst_seen
from shiftproof.perturbations.threat import size_text
from shiftproof.report.accuracy import AccuracyRow, AccuracyTable
from shiftproof.report.advice import advice_on
from shiftproof.report.certified import Series
from shiftproof.report.estimates import gap
from shiftproof.report.scores import ScoreTable
from shiftproof.report.section import SECTIONS, Badge, Badges, Card, Section
from shiftproof.report.tables import points
from shiftproof.types import Estimate, Finding

__all__ = [
    "TELLING",
    "Findings",
    "Judgement",
    "certificate_findings",
    "certificate_judgements",
    "score_findings",
    "shift_findings",
    "shift_judgements",
]

_NO_TARGET = "there is no target domain: nothing is known of a domain that was not trained on"
TELLING = 0.10
"""A gap of this size should not stay hidden in an interval: a wider one decides nothing."""


@dataclass(frozen=True)
class Judgement:
    """Whether accuracy or a guarantee survives on a target: as a finding, and in a few words for a terminal."""

    finding: Finding
    short: str


@SECTIONS.register("findings")
class Findings(Section):
    """What a reader should take away: pass, warn or fail."""

    title = "What we found"
    order = 300

    def applies(self) -> bool:
        """Whether there are findings."""
        return bool(self.report.findings)

    def cards(self) -> list[Card]:
        """One line a finding, failures first."""
        return [Card([Badges(list(self._badges()))])]

    def _badges(self) -> Iterator[Badge]:
        """What was found; below the first of several alike stands what it means and what to do."""
        told = set[str]()
        for one in self.report.findings:
            advice = advice_on(one)
            below = "" if advice is None or str(advice) in told else str(advice)
            told.add(below)
            yield Badge(one.level, one.level, f"{one.message}.", below)

    def to_json(self) -> list[dict[str, str]]:
        """Level, code and message of each."""
        return [{"level": one.level, "code": one.code, "message": one.message} for one in self.report.findings]


def shift_findings(table: AccuracyTable, labels: Mapping[str, Mapping[str, int]]) -> Iterator[Finding]:
    """One finding a model and target: does its accuracy survive the shift? `labels` counts classes by domain."""
    return (one.finding for one in shift_judgements(table, labels))


def shift_judgements(table: AccuracyTable, labels: Mapping[str, Mapping[str, int]]) -> Iterator[Judgement]:
    """The same with each finding in a few words."""
    if not table.targets and table.rows:
        yield _as_it_is(Finding("warn", "no-target", _NO_TARGET))
    for row in table.rows:
        sources = [source for source in table.sources if source in row.accuracy]
        if not sources:
            continue
        trained = _trained(row, sources, table.domains)
        # of what was imported, labels may not be known
        known = all(sum(labels[source].values()) for source in sources)
        if known and all(row.accuracy[source].low <= _constant(source, sources, labels) for source in sources):
            message = f"{trained} can't be told from always answering with one class"
            yield _as_it_is(Finding("warn", "not-learned", message))
        elif not table.targets:
            yield from [_as_it_is(Finding("pass", "learned", trained))] if known else []
        else:
            yield from (_finding(row, sources, target, len(labels[target])) for target in row.gaps)


def score_findings(table: ScoreTable) -> Iterator[Finding]:
    """The same of models that predict numbers, by Pearson's correlation."""
    if not table.targets and table.rows:
        yield Finding("warn", "no-target", _NO_TARGET)
    for row in (one for one in table.rows if one.kind == "pearson"):
        here = mean(row.scores[source].value for source in table.sources)
        trained = f"{row.model}: correlation {here:.2f} on the domains it was trained on"
        if all(row.scores[source].low <= 0 for source in table.sources):
            yield Finding("warn", "not-learned", f"{trained} can't be told from none")
        elif not table.targets:
            yield Finding("pass", "learned", trained)
        for target, lost in row.gaps.items():
            measured = f"{trained}, {row.scores[target].value:.2f} on {target}"
            size = f"{lost.value:.2f} ({lost.low:.2f} to {lost.high:.2f})"
            if lost.low > 0:
                yield Finding("warn", "gap", f"{measured}: it loses {size}")
            elif lost.high > TELLING:
                yield Finding("warn", "undecided", f"{measured}: too few samples to tell, the gap is {size}")
            else:
                yield Finding("pass", "holds", f"{measured}: no loss is measurable, the gap is {size}")


def _trained(row: AccuracyRow, sources: Sequence[str], rests_on: Sequence[str]) -> str:
    here = mean(row.accuracy[source].value for source in sources)
    note = f" ({row.note(rests_on)})" if row.note(rests_on) else ""
    return f"{row.model}: {here:.0%} on the domains it was trained on{note}"


def _finding(row: AccuracyRow, sources: Sequence[str], target: str, classes: int) -> Judgement:
    there, lost, guessing = row.accuracy[target], row.gaps[target], 1 / classes if classes else 0.0
    measured = f"{_trained(row, sources, (*sources, target))}, {there.value:.0%} on {target}"
    size, model = _size(lost), row.model
    seen = f" ({note})" if (note := row.note((*sources, target))) else ""
    if lost.low > 0 and there.high < guessing:
        worse = f"is worse than guessing ({guessing:.0%})"
        finding = Finding("fail", "collapse", f"{measured}: it loses {size} and {worse}")
        return Judgement(finding, f"{model} loses {size} on {target} and {worse}{seen}")
    if lost.low > 0:
        return Judgement(
            Finding("warn", "gap", f"{measured}: it loses {size}"), f"{model} loses {size} on {target}{seen}"
        )
    if lost.high > TELLING:
        unit = "groups" if "bootstrap" in there.method else "samples"
        few = f"too few {unit} to tell"
        finding = Finding("warn", "undecided", f"{measured}: {few}, the gap is {size}")
        return Judgement(finding, f"{model}: {few} what it loses on {target}, {size}{seen}")
    return _as_it_is(Finding("pass", "holds", f"{measured}: no loss is measurable, the gap is {size}"))


def _as_it_is(finding: Finding) -> Judgement:
    return Judgement(finding, finding.message)


def _constant(domain: str, sources: Sequence[str], labels: Mapping[str, Mapping[str, int]]) -> float:
    """How often the sources' commonest class is right on a domain."""
    commonest = max(labels[domain], key=lambda label: sum(labels[source][label] for source in sources))
    return labels[domain][commonest] / sum(labels[domain].values())


def _size(lost: Estimate) -> str:
    """A gap in points, with its interval."""
    return f"{points(lost.value).lstrip('+')} points ({points(lost.low)} to {points(lost.high)})"


def certificate_findings(
    series: Sequence[Series], sources: Sequence[str], targets: Sequence[str], seed: int = 0
) -> Iterator[Finding]:
    """One finding a model, setting and target: does the guarantee survive the shift?"""
    return (one.finding for one in certificate_judgements(series, sources, targets, seed))


def certificate_judgements(
    series: Sequence[Series], sources: Sequence[str], targets: Sequence[str], seed: int = 0
) -> Iterator[Judgement]:
    """The same with each finding in a few words."""
    for model, setting in dict.fromkeys((one.model, one.setting) for one in series):
        by_domain = {one.domain: one for one in series if (one.model, one.setting) == (model, setting)}
        here = [by_domain[source] for source in sources if source in by_domain]
        for target in targets if here else ():
            if target in by_domain:
                yield _certificate_finding(here, by_domain[target], seed, len(targets) > 1)


def _certificate_finding(here: Sequence[Series], there: Series, seed: int, several: bool) -> Judgement:
    """Of one model and setting on the sources and on a target; `several` says that there are other targets."""
    model, target, radius = there.model, there.domain, here[0].scale
    within = f"{size_text(radius, there.norm)}" if there.counts_edits else f"a radius of {radius:g}"
    where = there.units if there.counts_edits else f"{there.norm}, {there.units}"
    what = f"right and certified within {within} ({where})"
    note = seen_note(worst_seen(one.seen for one in [*here, there]))
    trained = f"the domains it was trained on{f' ({note})' if note else ''}"
    measured = (
        f"{model}, {there.name}: {mean(one.at(radius).value for one in here):.0%} of the samples of "
        f"{trained} are {what}, {there.at(radius).value:.0%} of those of {target}"
    )
    if not there.at(radius).value and not any(one.at(radius).value for one in here):
        of = f" of {target} and of the domains it was trained on" if several else ""
        message = f"{model}, {there.name}: not one sample{of} is right and certified within {within}"
        return _as_it_is(Finding("warn", "guarantee-none", message))
    lost = gap([one.values(radius) for one in here], there.values(radius), seed)
    size = _size(lost)
    short, seen = f"{model}, {there.name}:", f" ({note})" if note else ""
    if lost.low > 0:
        finding = Finding("warn", "guarantee-shrinks", f"{measured}: the guarantee loses {size}")
        return Judgement(
            finding, f"{short} the guarantee within {size_text(radius, there.norm)} loses {size} on {target}{seen}"
        )
    if lost.high > TELLING:
        few = "too few samples to tell"
        finding = Finding("warn", "guarantee-undecided", f"{measured}: {few}, the gap is {size}")
        return Judgement(finding, f"{short} {few} whether the guarantee shrinks on {target}, {size}{seen}")
    return _as_it_is(Finding("pass", "guarantee-holds", f"{measured}: no loss is measurable, the gap is {size}"))
