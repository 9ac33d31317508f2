"""Around each domain: what is guaranteed on every distribution near one that was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Band, Dots, Line, Mark, Rule, Style
from shiftproof.report.section import SECTIONS, Badge, Badges, Card, Section
from shiftproof.report.shift import (
    CONFIDENCE,
    ORDERS,
    KnownDistance,
    ShiftSeries,
    nice_distances,
    order_name,
    refusal_sentences,
)
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.theory.words import percent_down, rounded_down

__all__ = ["Around", "headline"]

_COLUMNS = (
    "model",
    "domain",
    "certificate",
    "norm",
    "distance",
    "class_shares",
    "eps",
    "guaranteed",
    "confidence",
    "n",
)
_WORTH = 0.01
"""A guarantee of less is none for a sentence."""
_DRAW_COLUMNS = ("model", "domain", "certificate", "norm", "bound", "eps", "guaranteed", "confidence", "n")
_ONE_DRAW = (
    "Another classifier than the vote: the model under a single draw of the noise. The larger of two bounds, each at "
    "half of the chance of error: from every sample's probability to be right, and from the accuracy alone (Kumar et "
    "al. 2022)."
)
_POINTS = 50
_LEGEND = {"symbolType": "stroke", "symbolOpacity": 1, "symbolStrokeWidth": 2}
_FAR = {True: ("warn", "outside"), False: ("pass", "not shown")}
_MANY = 4
"""Above so many curves, bands and attacks would hide each other."""


@SECTIONS.register("around")
class Around(Section):
    """What is guaranteed on every distribution near a domain, by its distance."""

    title = "Around each domain"
    order = 1240

    def applies(self) -> bool:
        """Whether there are certificates."""
        return bool(self.report.around)

    def tables(self) -> list[Table]:
        """One for each setting, all in one file; then those of one noisy draw, in another."""
        return [*map(self._table, _by_setting(self._held)), *map(self._one_draw, _by_setting(self._drawn))]

    def charts(self) -> list[Chart]:
        """The curves of each norm."""
        groups = enumerate(_by_units(self._held))
        return [_chart(number, some, self.report.distances) for number, some in groups]

    def cards(self) -> list[Card]:
        """Tables, then curves, then where nothing can be guaranteed, and why."""
        cards = [
            Card([table], [f"{sentence}."] if sentence else [], f"{some[0].title}, {_where(some[0])}")
            for table, some in zip(self.tables(), _by_setting(self._held), strict=False)
            for sentence in [headline(sorted(some, key=lambda one: one.domain not in self.report.targets))]
        ]
        cards += [Card([chart]) for chart in self.charts()]
        cards += [
            Card([self._one_draw(some)], [_ONE_DRAW], f"One noisy draw in place of the vote: {some[0].title}")
            for some in _by_setting(self._drawn)
        ]
        if self.report.distances:
            far = [Badge(*_FAR[one.outside], f"{one.sentence}.") for one in self.report.distances]
            cards.append(Card([Badges(far)], heading="How far targets are, at least"))
        refused = refusal_sentences(self.report.around)
        if refused:
            cards.append(Card([Badges([Badge("warn", "none", f"{text}.") for text in refused])]))
        if self._held:
            cards.append(Card(words=self.words()))
        return cards

    def words(self) -> list[str]:
        """What holds, with which probability, and what is not covered."""
        words = [
            f"Guaranteed ({CONFIDENCE:.0%} for each curve as a whole, over the draw of samples and noise): the least "
            "accuracy of the certified classifier on every distribution within the distance. Inputs may move, each as "
            "far as it likes as long as the mean stays within it (W1; W2 counts squares, W-infinity the farthest); "
            "labels do not, so that class shares stay those of the domain. With any shares, every class is within the "
            "distance of the same class, and the worst class counts.",
            "Whether a target lies within a distance can't be proven; that it lies outside can: shiftproof shift.",
        ]
        if any(not one.series.biased and not one.series.counts_edits for one in self._held):
            words.insert(
                1,
                "Without what is paid for few samples, the W1 curve would end at the average certified radius: that is "
                "what a mean radius means.",
            )
        notes = dict.fromkeys(one.first.note for one in self._held if one.first.note)
        return [*words, *notes]

    def to_json(self) -> dict[str, Any]:
        """The curves at round distances, where each ends, and what was refused."""
        return {
            "confidence": CONFIDENCE,
            "curves": [_figures(one, nice_distances(some)) for some in _by_setting(self._held) for one in some],
            "distances": [asdict(one) for one in self.report.distances],
            "refused": [
                {"model": one.model, "domain": one.domain, "certificate": one.title, "because": one.refusal}
                for one in self.report.around
                if one.refusal
            ],
        }

    @property
    def _held(self) -> list[ShiftSeries]:
        return [one for one in self.report.around if not one.refusal]

    @property
    def _drawn(self) -> list[ShiftSeries]:
        return [one for one in self._held if one.has_draw]

    def _one_draw(self, series: Sequence[ShiftSeries]) -> Table:
        eps = nice_distances(series)
        rows, records = [], []
        for one in series:
            assert one.one_draw is not None
            curves = {
                "larger of both": one.one_draw.at(np.array(eps)),
                "Kumar et al.": one.one_draw.kumar(np.array(eps)),
            }
            for bound, values in curves.items():
                cells = map(Cell, map(_percent, values.tolist()))
                name = self.report.row_name(one.model, one.domain, bound)
                rows.append(Row([name, *cells], tint=one.domain in self.report.targets, mark=True))
                records += [
                    [one.model, one.domain, one.title, one.norm, bound, distance, value, CONFIDENCE, one.first.n]
                    for distance, value in zip(eps, values.tolist(), strict=True)
                ]
        heads = [Heading("model, domain"), *(Heading(f"W1 {one:g}", ("guaranteed",)) for one in eps)]
        return Table("one-draw", heads, rows, Records(_DRAW_COLUMNS, records), series[0].title)

    def _table(self, series: Sequence[ShiftSeries]) -> Table:
        eps = nice_distances(series)
        some = eps[min(1, len(eps) - 1)]
        heads = [Heading(f"W1 {one:g}", ("guaranteed",), f"W1 {one:g}") for one in eps]
        others = [
            Heading(f"W2 {some:g}", ("guaranteed",)),
            Heading(f"any shares, {some:g}", ("worst class",)),
            Heading("paid", ("points, for few samples",)),
            Heading("W1 ends at"),
            Heading("mean radius"),
        ]
        rows, records = [], []
        for one in series:
            n = f"n = {one.first.n}{' groups' if one.first.grouped else ''}"
            figures = [
                *(_percent(float(value)) for value in one.at(np.array(eps))),
                _percent(float(one.at(some, 2.0))),
                _percent(float(one.at(some, 1.0, "any"))),
                f"{100 * one.first.term:.1f}",
                rounded_down(one.ends),
                f"{one.first.mean_reach:.3f}",
            ]
            name = self.report.row_name(one.model, one.domain, n)
            unseen = one.domain in self.report.targets
            rows.append(Row([name, *map(Cell, figures)], tint=unseen, mark=not one.series.imported))
            records += list(_records(one, eps))
        return Table(
            "around", [Heading("model, domain"), *heads, *others], rows, Records(_COLUMNS, records), series[0].title
        )


def headline(series: Sequence[ShiftSeries]) -> str:
    """A sentence of the first curve, at a round distance about half way to its end; nothing if it guarantees nothing.

    The first, not the best: each holds with its own probability, and the best of many would hold with less.
    """
    first = next((one for one in series if not one.refusal), None)
    if first is None or not 0 < first.ends < math.inf:
        return ""
    round_ones = [eps for eps in nice_distances([first]) if 0 < eps <= first.ends / 2]
    eps = round_ones[-1] if round_ones else float(rounded_down(first.ends / 2))
    if float(first.at(eps)) < _WORTH:
        return ""
    return f"{f'{first.model}: ' if len({one.model for one in series}) > 1 else ''}{first.sentence(eps)}"


def _where(one: ShiftSeries) -> str:
    note = ": can't be checked here" if one.series.imported else ""
    return f"distances in {one.norm} ({one.units}){note}"


def _percent(value: float) -> str:
    return percent_down(value, 1)


def _records(one: ShiftSeries, eps: Sequence[float]) -> Iterator[list[Any]]:
    head = [one.model, one.domain, one.title, one.norm]
    for p in ORDERS.values():
        for shares in ("same", "any"):
            for distance, value in zip(eps, one.at(np.array(eps), p, shares).tolist(), strict=True):
                yield [*head, order_name(p), shares, distance, value, CONFIDENCE, one.first.n]


def _figures(one: ShiftSeries, eps: Sequence[float]) -> dict[str, Any]:
    return {
        "model": one.model,
        "domain": one.domain,
        "certificate": one.title,
        "norm": one.norm,
        "units": one.units,
        "n": one.first.n,
        "w1": dict(zip(map("{:g}".format, eps), one.at(np.array(eps)).tolist(), strict=True)),
        "ends": one.ends if math.isfinite(one.ends) else None,
        "mean_radius": one.first.mean_reach,
        "term": one.first.term,
        "guarantee": one.first.guarantee,
    }


def _by_setting(series: Sequence[ShiftSeries]) -> list[list[ShiftSeries]]:
    settings = dict.fromkeys(one.series.setting for one in series)
    return [[one for one in series if one.series.setting == setting] for setting in settings]


def _by_units(series: Sequence[ShiftSeries]) -> list[list[ShiftSeries]]:
    """The curves that share an axis."""
    units = dict.fromkeys((one.norm, one.units) for one in series)
    return [[one for one in series if (one.norm, one.units) == pair] for pair in units]


def _chart(number: int, series: Sequence[ShiftSeries], distances: Sequence[KnownDistance]) -> Chart:
    """W1 curves: guaranteed as lines, up to the estimate as a band, and what attacks have found as dots."""
    farthest = max([one.first.mean_reach for one in series if math.isfinite(one.first.mean_reach)] or [1.0])
    eps = np.linspace(0, max(farthest, 1e-3) * 1.05, _POINTS)
    names, few = [_name(one, series) for one in series], len(series) <= _MANY
    styles = style_of(dict.fromkeys(names))
    bands, lines, dots = list[Mark](), list[Mark](), list[Mark]()
    for one, name in zip(series, names, strict=True):
        style, low, high, attacked = styles[name], one.at(eps), one.estimate(eps), one.attacked(eps)
        points = list(zip(eps.tolist(), low.tolist(), strict=True))
        hints = [f"{name}, within W1 {x:.3g}: {percent_down(y, 1)} guaranteed" for x, y in points]
        limits = list(zip(eps.tolist(), low.tolist(), high.tolist(), strict=True))
        bands.append(Band(limits, replace(style, opacity=0.12), (name,)))
        lines += [Line(points, style, (name,)), Dots(points, style, (name,), hints, hidden=True)]
        if attacked is not None:
            found = list(zip(eps.tolist(), attacked.tolist(), strict=True))[::4]
            told = [f"{name}, attacks within {x:.3g} leave {y:.1%}" for x, y in found]
            dots.append(Dots(found, style, (name,), told, size=2.5))
    inside = [one for one in distances if (one.norm, one.units) == (series[0].norm, series[0].units)]
    edges: list[Mark] = [
        Rule(one.lower, Style(None, (2, 3), width=1), upright=True, label=f"{one.target} from {one.domain}")
        for one in inside
        if one.lower <= eps[-1]
    ]
    words = "Lines: accuracy that is guaranteed on every distribution within the distance."
    words += " Upright: how far a target is at least." * bool(edges)
    if few:
        words += " Bands reach up to what the measured samples alone would give, without what is paid for their number."
        words += (
            " Dots: what attacks of the sizes tried have made of the measured samples; larger ones may leave less."
            * bool(dots)
        )
    x = numbers_axis(f"W1 distance from the domain ({series[0].norm}, {series[0].units})", eps.tolist())
    panel = Panel([*(bands if few else []), *lines, *(dots if few else []), *edges], x, share_axis("accuracy"))
    keys = [Key(name, style) for name, style in styles.items()]
    return Chart("around" if number == 0 else f"around-{number + 1}", [panel], keys, words=words)


def _name(one: ShiftSeries, series: Sequence[ShiftSeries]) -> str:
    """The model, the domain and the certificate, each where curves differ in it."""
    parts = [
        one.model if len({other.model for other in series}) > 1 else "",
        one.domain,
        one.title if len({other.title for other in series}) > 1 else "",
    ]
    return ", ".join(part for part in parts if part)
