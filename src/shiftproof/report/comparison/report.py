"""The page of a comparison: a report with sections of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shiftproof.display.axes import names_axis, numbers_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Mark, Rule, Style
from shiftproof.display.marks import Line as Stroke
from shiftproof.evidence import Evidence
from shiftproof.report.comparison.lines import Line
from shiftproof.report.comparison.tables import ModelPair, changed_table, difference_table, line_figures
from shiftproof.report.report import Report
from shiftproof.report.requirements import ComparedOutcome, Outcome
from shiftproof.report.section import Badge, Badges, Card, Facts, Section
from shiftproof.report.sections.requirements import Requirements
from shiftproof.report.tables import Table, points

__all__ = ["METHOD", "ComparisonReport", "comparison_report", "verdict_badges"]

METHOD = (
    "Differences are the other less the baseline, in points (of radii: in their units), on the same samples. Their "
    "95 % intervals are a bootstrap of pairs: both figures of a sample, or of a whole group where there are groups, "
    "are drawn together; several training seeds count by their t interval; of models that were trained once, a "
    "difference is about these weights, and not about the way they were trained. Each interval stands for itself: of "
    "twenty, one misses the truth on average, so that a difference that nobody expected should be measured again.",
    "Better and worse mean that the whole interval is on one side of 0; otherwise the difference is not decided. A "
    "sample gains if it is right, or certified, and was not for the baseline; of a mean over corruptions or seeds, if "
    "it rises.",
)
"""What the figures are, in sentences."""
_LEVELS = {"better": "pass", "worse": "fail", "undecided": "warn"}


@dataclass(frozen=True, eq=False)
class ComparisonReport(Report):
    """A report about pairs of models instead of one run's evidence."""

    pairs: Sequence[ModelPair] = ()

    @cached_property
    def sections(self) -> dict[str, Section]:
        """What was required, what differs, which samples changed, how it was done."""
        made: dict[str, Section] = {
            "requirements": Requirements(self),
            "summary": _Summary(self),
            "compare": _Differences(self),
            "changed": _Changed(self),
            "provenance": _Provenance(self),
        }
        return {name: section for name, section in made.items() if section.applies()}


def comparison_report(
    title: str,
    about: str,
    pairs: Sequence[ModelPair],
    outcomes: Sequence[ComparedOutcome | Outcome],
    facts: Mapping[str, str],
    seed: int,
) -> ComparisonReport:
    """The report of some pairs of models."""
    targets = tuple(dict.fromkeys(name for pair in pairs for name in pair.targets))
    sources = tuple(dict.fromkeys(name for pair in pairs for name in pair.domains if name not in targets))
    return ComparisonReport(
        title=title,
        about=about,
        models={},
        sources=sources,
        targets=targets,
        classes=(),
        evidence=Evidence(),
        sheets={},
        facts=facts,
        labels={},
        notes=(),
        seed=seed,
        outcomes=outcomes,
        pairs=pairs,
    )


class _PairSection(Section):
    report: ComparisonReport

    def applies(self) -> bool:
        """Always."""
        return True

    @property
    def pairs(self) -> Sequence[ModelPair]:
        """The pairs of models that are compared."""
        return self.report.pairs


class _Summary(_PairSection):
    """Which differences are decided."""

    title = "In short"

    def cards(self) -> list[Card]:
        """For each pair what is better, what is worse, what is not decided, and what was left out."""
        return [
            Card(
                [Badges([*verdict_badges(pair), *(Badge("warn", "left out", f"{text}.") for text in pair.left_out)])],
                pair.notes,
                pair.title,
            )
            for pair in self.pairs
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """How many differences are decided, by pair."""
        return [{"pair": pair.title, "left_out": list(pair.left_out), **count_verdicts(pair)} for pair in self.pairs]


class _Differences(_PairSection):
    """Differences by measure and domain."""

    title = "What differs, on the same samples"

    def tables(self) -> list[Table]:
        """One for each pair."""
        return [difference_table(pair) for pair in self.pairs]

    def charts(self) -> list[Chart]:
        """Differences with their intervals, for each pair."""
        return [difference_chart(pair, place) for place, pair in enumerate(self.pairs) if pair.lines]

    def cards(self) -> list[Card]:
        """For each pair its table and its chart."""
        charts = self.charts()
        cards = [
            Card([table, chart], heading=pair.title)
            for pair, table, chart in zip(self.pairs, self.tables(), charts, strict=True)
        ]
        return [*cards, Card([], METHOD)]

    def to_json(self) -> list[dict[str, Any]]:
        """Every line of every pair."""
        return [{"pair": pair.title, "lines": [line_figures(line) for line in pair.lines]} for pair in self.pairs]


class _Changed(_PairSection):
    """Samples that gained or lost."""

    title = "Which samples changed"

    def tables(self) -> list[Table]:
        """One for each pair of which a sample changed."""
        return [table for table in map(changed_table, self.pairs) if table.rows]

    def applies(self) -> bool:
        """Whether any sample did."""
        return bool(self.tables())

    def cards(self) -> list[Card]:
        """The tables, and where all ids are."""
        words = ["A few ids of each; samples.csv has every sample of every measure, changed.csv all ids that changed."]
        return [Card([table], words, table.caption) for table in self.tables()]


class _Provenance(_PairSection):
    """What was compared."""

    title = "How it was compared"

    def cards(self) -> list[Card]:
        """Names with values."""
        return [Card([Facts(self.report.facts)])]

    def to_json(self) -> dict[str, str]:
        """The same."""
        return dict(self.report.facts)


def count_verdicts(pair: ModelPair) -> dict[str, int]:
    """How many differences are better, worse and undecided."""
    return {name: sum(line.verdict == name for line in pair.lines) for name in _LEVELS}


def verdict_badges(pair: ModelPair) -> list[Badge]:
    """What is better and what is worse, by domain, targets first; of what is not decided, how many."""
    badges = []
    for verdict, level in _LEVELS.items():
        by_domain = {
            domain: [line for line in pair.lines if (line.domain, line.verdict) == (domain, verdict)]
            for domain in pair.domains
        }
        several = {domain: lines for domain, lines in by_domain.items() if lines}
        if several and verdict == "undecided":
            counts = ", ".join(f"{len(lines)} on {domain}" for domain, lines in several.items())
            badges.append(Badge(level, "undecided", f"Of {len(pair.lines)} differences {counts}."))
        elif several:
            badges += [
                Badge(level, verdict, f"On {domain}: {'; '.join(map(_named, lines))}.")
                for domain, lines in several.items()
            ]
    return badges


def _named(line: Line) -> str:
    value = line.difference.value
    return f"{line.title} ({points(value) if line.is_share else f'{value:+.3g}'})"


def difference_chart(pair: ModelPair, place: int) -> Chart:
    """Shares: differences in points with their intervals, a row for each measure, a colour for each domain."""
    lines = [line for line in pair.lines if line.is_share]
    measures, styles = list(dict.fromkeys(line.title for line in lines)), style_of(pair.domains)
    marks: list[Mark] = [Rule(0, Style(None, (4, 3), width=1), upright=True)]
    for number, (domain, style) in enumerate(styles.items()):
        beside = 0.7 * ((number + 0.5) / len(styles) - 0.5)
        for line in lines:
            if line.domain == domain:
                low, value, high = (100 * x for x in _ends(line))
                y, of = measures.index(line.title) + beside, (domain,)
                hint = f"{domain}, {line.title}: {value:+.1f} points ({low:+.1f} to {high:+.1f})"
                marks += [Stroke([(low, y), (high, y)], style, of), Dots([(value, y)], style, of, [hint])]
    ends = [0.0, *(100 * x for line in lines for x in _ends(line))]
    x = numbers_axis("difference in points, the other less the baseline", ends)
    height = max(80, 18 * len(lines) + 14 * len(measures))
    panel = Panel(marks, x, names_axis(measures or [""], turned=True), width=560, height=height)
    keys = [Key(domain, style, "both") for domain, style in styles.items()]
    return Chart("compare" if place == 0 else f"compare-{place + 1}", [panel], keys)


def _ends(line: Line) -> tuple[float, float, float]:
    return line.difference.low, line.difference.value, line.difference.high
