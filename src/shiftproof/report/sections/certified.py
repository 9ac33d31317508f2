"""What is guaranteed: certified accuracy by radius, mean radii, and what the guarantee is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from shiftproof.certification import TOGETHER
from shiftproof.display.chart import Chart
from shiftproof.report.certified import Series, by_chart, by_setting, figures
from shiftproof.report.certified_chart import certified_chart
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell

__all__ = ["Certified"]

_COLUMNS = ("model", "domain", "certificate", "norm", "alpha", "metric", "radius", "value", "low", "high", "n")


@SECTIONS.register("certified")
class Certified(Section):
    """What is guaranteed: certified accuracy by radius, mean radii, and what the guarantee is."""

    title = "What is guaranteed"
    order = 1200

    def applies(self) -> bool:
        """Whether there are certificates."""
        return bool(self.report.series)

    def tables(self) -> list[Table]:
        """One for each setting, all in one file."""
        return [self._table(series) for series in by_setting(self.report.series)]

    def charts(self) -> list[Chart]:
        """Curves of certified accuracy."""
        return [chart for _, chart in self._groups()]

    def cards(self) -> list[Card]:
        """Below the tables of a chart's settings come the chart and the sentences of their guarantees."""
        tables = dict(zip([series[0].setting for series in by_setting(self.report.series)], self.tables(), strict=True))
        cards: list[Card] = []
        for group, chart in self._groups():
            settings = by_setting(group)
            words = [self._words(series) for series in settings]
            # what is true of several tables is said below the last of them
            below = [[] if sentence in words[place + 1 :] else [sentence] for place, sentence in enumerate(words)]
            cards += [
                Card([tables[series[0].setting]], sentences, series[0].heading)
                for series, sentences in zip(settings, below, strict=True)
            ]
            in_full = [f"In full: {one}" for one in dict.fromkeys(one.guarantee for one in group)]
            cards += [Card([chart]), Card(words=in_full, lead=list(dict.fromkeys(one.promise for one in group)))]
        cards[-1] = replace(cards[-1], words=[*cards[-1].words, *self.words()])
        return cards

    def words(self) -> list[str]:
        """What holds for all certificates of the report together."""
        sampled = any(one.alpha and not one.imported for one in self.report.series)
        return [*([TOGETHER] if sampled else []), *self.report.seed_words]

    def to_json(self) -> list[dict[str, Any]]:
        """All figures of every model, domain and setting."""
        return [
            figures(one, self.report.radii_of(series)) for series in by_setting(self.report.series) for one in series
        ]

    def _groups(self) -> Iterator[tuple[list[Series], Chart]]:
        for number, group in enumerate(by_chart(self.report.series, self.report.targets)):
            name = "certified" if number == 0 else f"certified-{number + 1}"
            yield group, certified_chart(name, group, self.report.targets)

    def _table(self, series: Sequence[Series]) -> Table:
        radii = self.report.radii_of(series)
        heads = [Heading(series[0].radius_words(radius), ("certified",), f"r >= {radius:.4g}") for radius in radii]
        what = "mean edits" if series[0].counts_edits else "mean radius"
        means = [Heading(what, ("all samples",)), Heading(what, ("if right",)), Heading("abstains")]
        rows = []
        for one in series:
            name = self.report.row_name(one.model, one.domain, f"n = {one.images}")
            mean = f"{one.mean_radius():.3f}{'+' if one.biased else ''}"
            others = [
                mean,
                f"{one.mean_radius('correct'):.3f}",
                "-" if one.abstained is None else f"{one.abstained:.1%}",
            ]
            cells = [*(percent_cell(one.at(radius)) for radius in radii), *map(Cell, others)]
            rows.append(Row([name, *cells], tint=one.domain in self.report.targets))
        records = Records([*_COLUMNS, "seen_in_training"], [line for one in series for line in _records(one, radii)])
        return Table("certified", [Heading("model, domain"), *heads, *means], rows, records, series[0].heading)

    def _words(self, series: Sequence[Series]) -> str:
        first = series[0]
        who = "classifier itself" if first.classifier == "base" else f"{first.classifier} classifier"
        stays = "by what others have logged stays right" if first.imported else "provably stays right"
        words = [
            f"Certified accuracy: the part of all samples on which the {who} is right and {stays} within the radius "
            f"({first.norm}, {first.units}).",
            f"Small figures are 95 % intervals, in percent{', for this noise' if first.alpha else ''}.",
        ]
        if any(one.biased for one in series):
            words.append(
                "A mean radius with + is biased low, because sampling stopped once the question was decided. So may be "
                "what is certified at radii other than those of the table of all measures."
            )
        if first.classifier != "base":
            words.append(f"The {first.classifier} classifier is not the model itself: its accuracy may be lower.")
        return " ".join(words)


def _records(one: Series, radii: Sequence[float]) -> Iterator[list[Any]]:
    alpha = "not stated" if one.stated_alpha is None else one.alpha
    head = [one.model, one.domain, one.title, one.norm, alpha]
    for radius in radii:
        e = one.at(radius)
        yield [*head, "certified accuracy", radius, e.value, e.low, e.high, e.n, one.seen]
    for over in ("all", "correct"):
        yield [*head, f"average certified radius, {over}", "", one.mean_radius(over), "", "", "", one.seen]
    yield [*head, "abstained", "", "" if one.abstained is None else one.abstained, "", "", "", one.seen]
