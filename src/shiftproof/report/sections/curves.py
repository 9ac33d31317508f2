"""Attacked and certified accuracy on one axis of sizes: between what is measured and what is guaranteed, by domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from shiftproof.display.axes import Axis, numbers_axis, share_axis
from shiftproof.display.chart import SOURCE_DASH, WIDTH, Chart, Key, Panel, style_of
from shiftproof.display.marks import Band, Dots, Line, Mark, Style, Whiskers
from shiftproof.evidence.certified import curve_band
from shiftproof.report.certified import Series, series_of_evidence
from shiftproof.report.certified_chart import radius_axis, radius_grid
from shiftproof.report.measures import Measure
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.types import FloatArray

__all__ = ["Curves"]

_POINTS, _BAND_POINTS, _MOST = 80, 9, 400
"""Points of a curve, those of its band where intervals take long, and such intervals in a chart."""
_SIDE, _LOW = 410, 240
_COLUMNS = ("model", "domain", "kind", "classifier", "norm", "size", "value", "low", "high", "seen_in_training")
_CERTIFIED, _ATTACKED, _VOTE = (
    "certified, guaranteed",
    "attacked, the model itself",
    "attacked, the smoothed classifier",
)
_LOOKS = {_CERTIFIED: Style(None), _ATTACKED: Style(None, (2, 3)), _VOTE: Style(None, SOURCE_DASH)}


@dataclass(frozen=True, eq=False)
class _Scale:
    """What is measured in one norm and its units: certificates, and attacks."""

    certified: list[Series]
    attacked: list[Measure]


@SECTIONS.register("curves")
class Curves(Section):
    """Attacked and certified accuracy by size, one panel a domain."""

    title = "Attacked and certified, by size"
    order = 620

    def applies(self) -> bool:
        """Whether there are attacks and certificates in one norm: they can be compared then."""
        return bool(self._scales)

    def charts(self) -> list[Chart]:
        """One for each norm."""
        return [
            self._chart("curves" if number == 0 else f"curves-{number + 1}", one)
            for number, one in enumerate(self._scales)
        ]

    def tables(self) -> list[Table]:
        """The numbers that are drawn, for files; on the page stand the charts."""
        records = [record for scale in self._scales for record in self._records(scale)]
        heads = [Heading(name) for name in _COLUMNS]
        rows = [Row([Cell("" if value is None else str(value)) for value in record]) for record in records]
        return [Table("curves", heads, rows, Records(_COLUMNS, records))]

    def cards(self) -> list[Card]:
        """The charts."""
        return [Card(self.charts(), self.words())]

    def words(self) -> list[str]:
        """Between which lines the truth is."""
        note = f"{self.report.measures.note}. " if self.report.measures.note else ""
        return [
            f"{note}A certified line is a guarantee: no attack, of whatever kind, goes below it. An attacked line is "
            "what was found: a better attack may go lower. The accuracy of the same classifier under the worst attack "
            "lies between the two; lines of different classifiers have no order. Certified lines of a vote fall to 0 "
            "where so many votes can certify no more. Click a name in the legend to hide or show its lines."
        ]

    def _records(self, scale: _Scale) -> Iterator[list[Any]]:
        radii = radius_grid(scale.certified, _POINTS)
        for one in scale.certified:
            for radius, share in zip(radii.tolist(), one.curve(radii).tolist(), strict=True):
                yield [
                    one.model,
                    one.domain,
                    "certified",
                    one.classifier,
                    one.norm,
                    radius,
                    share,
                    None,
                    None,
                    one.seen,
                ]
        for attack in scale.attacked:
            for domain in attack.samples:
                e, head = attack.at(domain), [attack.model, domain, "attacked", attack.classifier, attack.norm]
                yield [*head, attack.size, e.value, e.low, e.high, attack.seen_in([domain])]

    @cached_property
    def _scales(self) -> list[_Scale]:
        certified = series_of_evidence(self.report.shared)
        attacked = [row.measure for row in self.report.measures.rows if row.measure.kind == "attacked"]
        pairs = dict.fromkeys((one.norm, one.units) for one in certified)
        scales = [
            _Scale(
                [one for one in certified if (one.norm, one.units) == pair],
                [one for one in attacked if (one.norm, one.units) == pair],
            )
            for pair in pairs
        ]
        return [one for one in scales if one.attacked]

    def _chart(self, name: str, scale: _Scale) -> Chart:
        report = self.report
        domains = [name for name in (*report.targets, *report.sources) if self._measured(scale, name)]
        styles = style_of(dict.fromkeys([*(one.model for one in scale.certified), *(m.model for m in scale.attacked)]))
        radii = radius_grid(scale.certified, _POINTS)
        x = _widened(radius_axis(scale.certified[0], radii), max(one.size for one in scale.attacked))
        shown = dict[str, None]()
        panels = []
        for domain in domains:
            marks = list[Mark]()
            for mark, kind in [*self._certified(scale, domain, styles, radii), *self._attacked(scale, domain, styles)]:
                marks.append(mark)
                shown[kind] = None
            title = f"{domain}, {report.role_of(domain)}" if report.targets else domain
            alone = len(domains) == 1
            panels.append(Panel(marks, x, share_axis("right, of all samples"), title, WIDTH if alone else _SIDE, _LOW))
        keys = [Key(model, style, "line") for model, style in styles.items()]
        keys += [Key(kind, _LOOKS[kind], "line" if kind == _CERTIFIED else "both") for kind in _LOOKS if kind in shown]
        return Chart(name, panels, keys, columns=2, words=self._bands(scale))

    @staticmethod
    def _measured(scale: _Scale, domain: str) -> bool:
        return any(one.domain == domain for one in scale.certified) or any(domain in m.samples for m in scale.attacked)

    def _certified(
        self, scale: _Scale, domain: str, styles: dict[str, Style], radii: FloatArray
    ) -> Iterator[tuple[Mark, str]]:
        here = [one for one in scale.certified if one.domain == domain]
        several = len({one.name for one in scale.certified}) > 1
        for one in here:
            style, of = styles[one.model], (one.model, _CERTIFIED)
            points = list(zip(radii.tolist(), one.curve(radii).tolist(), strict=True))
            named = f"{one.model}, certified{f' by {one.name}' if several else ''}"
            hints = [f"{named} on {domain}, {one.radius_words(r)}: {share:.1%}" for r, share in points]
            ranges = _band(one, radii, len(scale.certified))
            # between a few places a level line would be the band of the next one
            yield Band(ranges, replace(style, opacity=0.12), of, "before" if _simple(one) else ""), _CERTIFIED
            yield Line(points, style, of, "before"), _CERTIFIED
            yield Dots(points[::2], style, of, hints[::2], hidden=True), _CERTIFIED

    def _attacked(self, scale: _Scale, domain: str, styles: dict[str, Style]) -> Iterator[tuple[Mark, str]]:
        groups: dict[tuple[str, str, str], list[Measure]] = {}
        for one in scale.attacked:
            if domain in one.samples:
                # one kind of attack at several sizes is one line
                groups.setdefault((one.model, one.classifier, one.noise), []).append(one)
        clean = [row.measure for row in self.report.measures.rows if row.measure.kind == "clean"]
        for (model, classifier, noise), attacks in groups.items():
            kind = _ATTACKED if classifier == "base" else _VOTE
            before = [m for m in clean if (m.model, m.classifier, m.noise) == (model, classifier, noise)]
            found = [(m.size, m.at(domain), m.title) for m in (*before, *attacks) if domain in m.samples]
            found.sort(key=lambda one: one[0])
            style, of = replace(styles[model], dash=_LOOKS[kind].dash), (model, kind)
            hints = [f"{model} on {domain}, {title}: {e.format()}" for _, e, title in found]
            points = [(size, e.value) for size, e, _ in found]
            yield Line(points, replace(style, width=1.5), of), kind
            bars = [(size, e.low, e.high) for size, e, _ in found]
            yield Whiskers(bars, replace(style, dash=(), width=1.5, opacity=0.5), of), kind
            yield Dots(points, style, of, hints, size=3.5), kind

    def _bands(self, scale: _Scale) -> str:
        simple = all(_simple(one) for one in scale.certified)
        if simple:
            return "Bands hold for each certified curve as a whole, bars for each attack, at 95 %."
        return "Bands and bars are 95 % intervals, each at its place."


def _simple(one: Series) -> bool:
    return not one.grouped and len(one.repeats.measurements) == 1


def _band(one: Series, radii: FloatArray, curves: int) -> list[tuple[float, float, float]]:
    """How far a curve may be off: as a whole; where samples are grouped or seeds differ, at some places."""
    if _simple(one):
        half, shares = curve_band(one.images), one.curve(radii)
        pairs = zip(radii.tolist(), shares.tolist(), strict=True)
        # beyond the last certified radius there is no curve
        return [(r, max(0.0, s - half), min(1.0, s + half)) for r, s in pairs if s > 0]
    if curves * _BAND_POINTS > _MOST:
        return []
    places = radii[:: max(1, len(radii) // _BAND_POINTS)].tolist()
    limits = [(radius, one.at(radius)) for radius in places]
    return [(radius, e.low, e.high) for radius, e in limits]


def _widened(axis: Axis, size: float) -> Axis:
    """An axis that also has room for the largest attack."""
    return axis if size <= axis.high else numbers_axis(axis.title, [0.0, size])
