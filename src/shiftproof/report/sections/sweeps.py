"""What changes with an option that a study sweeps over: accuracy, also where corrupted, and mean certified radius."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shiftproof.display.axes import numbers_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Line, Mark, Whiskers
from shiftproof.report.certified import Series
from shiftproof.report.estimates import estimate, repeats_in
from shiftproof.report.measures import measures_of
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell
from shiftproof.types import Estimate

__all__ = ["Sweep", "Sweeps"]

_WIDE = 50
"""Values that far apart, as a ratio, are shown on a logarithmic axis."""


@dataclass(frozen=True)
class Sweep:
    """Models that differ in one option: its name, and (value, model) in order."""

    option: str
    models: tuple[tuple[float, str], ...]

    @property
    def name(self) -> str:
        """The option without what it is an option of."""
        return self.option.split(".")[-1]


@dataclass(frozen=True)
class _Point:
    value: float
    domain: str
    measure: str
    estimate: Estimate


@SECTIONS.register("sweeps")
class Sweeps(Section):
    """What changes with an option."""

    title = "What changes with an option"
    order = 1350

    def applies(self) -> bool:
        """Whether the study sweeps over an option."""
        return bool(self.report.sweeps)

    def tables(self) -> list[Table]:
        """One for each option, in one file."""
        return [self._table(sweep) for sweep in self.report.sweeps]

    def charts(self) -> list[Chart]:
        """Accuracy by the option's value, also on corrupted samples, and mean certified radii."""
        charts: list[Chart] = []
        for sweep in self.report.sweeps:
            points = self._points(sweep)
            for measure in dict.fromkeys(point.measure for point in points):
                shown = [point for point in points if point.measure == measure]
                # what was measured of one model of the sweep alone shows no change
                if len({point.value for point in shown}) < 2:
                    continue
                charts.append(_chart(f"sweep-{len(charts) + 1}", sweep, measure, shown))
        return charts

    def words(self) -> list[str]:
        """What the bars are."""
        return [
            "Upright bars are 95 % intervals. On a logarithmic axis there is no 0: that stands in the table alone.",
            *self.report.seed_words,
        ]

    def _points(self, sweep: Sweep) -> list[_Point]:
        """Of targets, or without one of all domains."""
        shown = self.report.targets or self.report.sources
        evidence = [one for one in self.report.evidence if one.domain in shown and one.probe == "clean"]
        clean = {(one.model, one.domain): one for one in repeats_in(evidence)}
        spoiled = self.report.evidence.where(probe="corrupt")
        points = []
        for value, model in sweep.models:
            accuracies = {domain: clean[model, domain] for domain in shown if (model, domain) in clean}
            for domain, repeats in accuracies.items():
                points.append(_Point(value, domain, "accuracy", estimate(repeats.values(), exact=not repeats.grouped)))
            corrupted = [one for one in measures_of(spoiled, model) if one.kind == "corrupted"]
            for one in corrupted:
                points += [
                    _Point(value, domain, one.title, one.at(domain)) for domain in shown if domain in one.samples
                ]
            certified = [one for one in self.report.series if one.model == model and one.domain in shown]
            for series in certified:
                radius = estimate(series.radii, exact=False, limits=None)
                points.append(_Point(value, series.domain, f"mean radius, {_certificate(series, certified)}", radius))
        return points

    def _table(self, sweep: Sweep) -> Table:
        points = self._points(sweep)
        columns = list(dict.fromkeys((point.measure, point.domain) for point in points))
        known = {(point.value, point.measure, point.domain): point.estimate for point in points}
        rows = []
        for value, model in sweep.models:
            cells = [_cell(known.get((value, *column)), column[0]) for column in columns]
            rows.append(Row([Cell(f"{value:g}", (model,), strong=True), *cells]))
        records = [
            [
                sweep.option,
                p.value,
                p.domain,
                p.measure,
                p.estimate.value,
                p.estimate.low,
                p.estimate.high,
                p.estimate.n,
            ]
            for p in points
        ]
        head = ("option", "value of the option", "domain", "measure", "value", "low", "high", "n")
        heads = [Heading(measure, (domain,)) for measure, domain in columns]
        return Table("sweeps", [Heading(sweep.name), *heads], rows, Records(head, records), sweep.option)


def _certificate(one: Series, others: Sequence[Series]) -> str:
    """What certifies: by its name alone where that tells, because its options may be what is swept over."""
    names = [_name(other) for other in others if other.domain == one.domain]
    return _name(one) if names.count(_name(one)) == 1 else one.title


def _name(one: Series) -> str:
    certifier = one.repeats.fact("certifier")
    return str(certifier["name"]).replace("-", " ") if isinstance(certifier, Mapping) else one.title


def _is_share(measure: str) -> bool:
    return measure == "accuracy" or measure.startswith("corrupted")


def _cell(known: Estimate | None, measure: str) -> Cell:
    if known is None:
        return Cell("-")
    if _is_share(measure):
        return percent_cell(known)
    return Cell(f"{known.value:.3f}", (f"{known.low:.3f} to {known.high:.3f}",), known.format("{:.3f}".format))


def _chart(name: str, sweep: Sweep, measure: str, points: list[_Point]) -> Chart:
    positive = [point.value for point in points if point.value > 0]
    wide = bool(positive) and max(positive) > _WIDE * min(positive)
    if wide:
        # a logarithmic axis has no place for 0
        points = [point for point in points if point.value > 0]
    styles, marks = style_of(dict.fromkeys(point.domain for point in points)), list[Mark]()
    for domain, style in styles.items():
        here = [(point.value, point.estimate) for point in points if point.domain == domain]
        hints = [f"{domain}, {sweep.name} {value:g}: {_cell(e, measure)}" for value, e in here]
        dots = [(value, e.value) for value, e in here]
        bars = Whiskers([(value, e.low, e.high) for value, e in here], style, (domain,))
        marks += [bars, Line(dots, style, (domain,)), Dots(dots, style, (domain,), hints)]
    values = sorted({point.value for point in points})
    x = numbers_axis(sweep.name, values, ticks=values, log=wide)
    ends = [0.0, *(limit for point in points for limit in (point.estimate.low, point.estimate.high))]
    y = numbers_axis(measure, ends, percent=_is_share(measure), grid=True)
    keys = [Key(domain, style, "both") for domain, style in styles.items()]
    return Chart(name, [Panel(marks, x, y, height=220)], keys, f"{measure} by {sweep.name}")
