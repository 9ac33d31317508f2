"""What is guaranteed: certified accuracy by radius, mean radii, and what the guarantee is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from shiftproof.certification import TOGETHER
from shiftproof.evidence.certified import curve_band, envelope
from shiftproof.report.certified import Series, by_chart, by_setting, figures
from shiftproof.report.chart import LINE, SOFT, Chart, by_colour, by_role, layer, make_chart, numbers_axis, share_axis
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell
from shiftproof.types import FloatArray

__all__ = ["Certified", "certified_chart"]

_COLUMNS = ("model", "domain", "certificate", "norm", "alpha", "metric", "radius", "value", "low", "high", "n")
_POINTS = 120
_APART = 12
_DASHES = [[1, 0], [5, 4], [1, 3], [8, 3, 2, 3], [2, 2], [10, 4]]
_LINE = {"type": "line", "interpolate": "step-before", "strokeWidth": 2}
# long enough that a dash shows in the legend, too
_STROKES = {"symbolType": "stroke", "symbolSize": 400, "symbolStrokeWidth": 2}


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


def certified_chart(name: str, series: Sequence[Series], targets: Sequence[str] = ()) -> Chart:
    """Certified accuracy by radius, one colour a model, dashed on sources.

    Of several targets each has its own dash and dots, and its own colour where there is one model. Without a target
    there are no sources to tell from it: dashes then tell noises apart. Where all series are of one domain under
    several noises, their envelope is drawn behind them.
    """
    farthest, edits = max(float(one.earned.max()) for one in series), series[0].counts_edits
    radii = np.arange(max(farthest, 0) // 1 + 2) if edits else np.linspace(0, max(farthest, 1e-3) * 1.02, _POINTS)
    values = list(_points(series, radii, targets))
    x = numbers_axis("radius", f"radius ({series[0].norm}, {series[0].units})")
    # a tick at every whole number of edits, and at no half
    x |= {"axis": {"values": radii.tolist(), "format": "d"}} if edits else {}
    axes = {"x": x, "y": share_axis("certified", "certified accuracy")}
    if _several_targets(series, targets):
        words = (
            "Certified accuracy by radius: sources are dashed, and each unseen domain has a line and dots of its own."
        )
        return make_chart(name, _lines_by_target(values, radii, edits, axes), words=" ".join([words, *_band(series)]))
    lines = _lines_by_model(values, edits, axes)
    words = f"Certified accuracy by radius{': solid on the unseen domain, dashed on sources' if targets else ''}."
    words = " ".join([words, *_band(series)])
    if not _one_domain_many_noises(series, targets):
        return make_chart(name, lines, words=words)
    best = envelope([one.curve(radii) for one in series])
    rows = [{"radius": float(r), "certified": float(c)} for r, c in zip(radii, best, strict=True)]
    shade = layer(rows, {"type": "area", "color": LINE, "interpolate": "step-before"}, **axes)
    title = "gray: the best noise at each radius, which is no classifier's curve"
    return make_chart(name, [shade, *lines], title=title, words=words)


def _lines_by_model(values: Sequence[dict[str, Any]], edits: bool, axes: dict[str, Any]) -> list[dict[str, Any]]:
    """A colour for each model, a dash for each role; of edits there are whole numbers only, and dots say which."""
    roles = _roles(values)
    dashes = {"field": "role", "type": "nominal", "scale": {"domain": roles, "range": _DASHES[: len(roles)]}}
    legend = {**_STROKES, "symbolStrokeColor": SOFT} if len(roles) > 1 else None
    colour = by_colour("model", list(dict.fromkeys(row["model"] for row in values))) | {"legend": _STROKES}
    lines = layer(
        values,
        _LINE,
        **axes,
        detail={"field": "domain", "type": "nominal"},
        color=colour,
        strokeDash=dashes | {"legend": legend},
    )
    # dots of the lines themselves would hide the dashes of the legend
    dots = layer(values, {"type": "point", "filled": True, "size": 30, "opacity": 1}, **axes, color=colour)
    return [lines, dots] if edits else [lines]


def _lines_by_target(
    values: Sequence[dict[str, Any]], radii: FloatArray, edits: bool, axes: dict[str, Any]
) -> list[dict[str, Any]]:
    """Lines with a dash and dots for each target, in its colour or, of several models, in theirs."""
    roles, models = _roles(values), list(dict.fromkeys(row["model"] for row in values))
    unseen = [role for role in roles if role != "source"]
    colour, dash, shape = by_role("role", unseen, [role for role in roles if role == "source"])
    colour = colour if len(models) == 1 else by_colour("model", models) | {"legend": _STROKES}
    lines = layer(values, _LINE, **axes, detail={"field": "domain", "type": "nominal"}, color=colour, strokeDash=dash)
    # dots of different lines stand apart where the lines lie on each other
    apart, shift = (1, 0) if edits else (_APART, _APART // 3)
    places = [place % len(radii) + shift * roles.index(row["role"]) for place, row in enumerate(values)]
    dotted = [row for place, row in zip(places, values, strict=True) if place % apart == 0]
    dots = layer(dotted, {"type": "point", "filled": True, "size": 60, "opacity": 1}, **axes, color=colour, shape=shape)
    return [lines, dots]


def _roles(values: Sequence[dict[str, Any]]) -> list[str]:
    """What lines are told apart by, sources last."""
    return sorted(dict.fromkeys(row["role"] for row in values), key=lambda role: role == "source")


def _several_targets(series: Sequence[Series], targets: Sequence[str]) -> bool:
    return len({one.domain for one in series} & set(targets)) > 1


def _one_domain_many_noises(series: Sequence[Series], targets: Sequence[str]) -> bool:
    noises = len({one.domain for one in series}) == 1 and len({one.title for one in series}) == len(series) > 1
    return not targets and noises and len({one.alpha for one in series}) == 1


def _band(series: Sequence[Series]) -> Iterator[str]:
    """How far a whole curve may be off; nothing for groups or several training seeds, for which it does not hold."""
    if not any(one.grouped or len(one.repeats.measurements) > 1 for one in series):
        widest = max(curve_band(one.images) for one in series)
        if widest >= 1:
            # a band from 0 to 100 % says nothing
            return
        given = " (for this noise)" if series[0].alpha else ""
        yield f"Each curve as a whole is within {100 * widest:.1f} points of its domain's, at 95 %{given}."


def _points(series: Sequence[Series], radii: FloatArray, targets: Sequence[str]) -> Iterator[dict[str, Any]]:
    # where colours tell noises apart already, dashes need not
    told = len({one.label or one.model for one in series}) == len(series)
    several = _several_targets(series, targets)
    for one in series:
        other = "measured" if told else one.title
        unseen = f"{one.domain}, unseen" if several else "unseen"
        role = other if not targets else unseen if one.domain in targets else "source"
        for radius, value in zip(radii, one.curve(radii), strict=True):
            yield {
                "model": one.label or one.model,
                "domain": f"{one.domain} {one.setting}",
                "role": role,
                "radius": float(radius),
                "certified": float(value),
            }
