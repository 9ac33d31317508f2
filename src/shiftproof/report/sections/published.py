"""Our figures beside those of a publication: at every radius that its tables have, and as curves."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.report.chart import SOFT, Chart, by_colour, layer, make_chart, numbers_axis, share_axis
from shiftproof.report.claims.published import PublishedRow
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.types import Estimate

__all__ = ["BesidePublished", "published_tables"]

_COLUMNS = ("document", "table", "data set", "method", "metric", "radius", "published", "ours", "low", "high", "n")
_OF_OURS = ("model", "domain", "biased low")
_NAMES = {"acr": "mean radius", "accuracy": "accuracy"}
_OURS, _THEIRS = "ours", "published"


@SECTIONS.register("published")
class BesidePublished(Section):
    """Our figures beside those of a publication."""

    title = "Beside the publication"
    order = 170

    def applies(self) -> bool:
        """Whether the study names published tables."""
        return bool(self.report.published)

    def tables(self) -> list[Table]:
        """One for each table and data set of the document, all in one file."""
        return published_tables(self.report.published)

    def charts(self) -> list[Chart]:
        """Certified accuracy by radius, of every table that has several radii."""
        charts: list[Chart] = []
        for (_, table, dataset), rows in _by_table(self.report.published).items():
            certified = [row for row in rows if row.metric == "certified"]
            # a chart of published figures alone would be a reprint
            if len({row.level for row in certified}) > 2 and any(row.ours is not None for row in certified):
                charts.append(_chart(f"published-{len(charts) + 1}", f"{table}, {dataset}", certified))
        return charts

    def words(self) -> list[str]:
        """What stands beside what."""
        return [
            "Upper figures are ours, with 95 % intervals over samples and training seeds; below them, in brackets, "
            "stands what was published, as it was printed. What the study did not measure is called not run, with what "
            "it would take where that was asked for (shiftproof estimate RUN). A mean radius with + is one at least: "
            "votes stopped once every radius of the table was decided.",
            *self.report.seed_words,
        ]

    def cards(self) -> list[Card]:
        """Tables, then curves."""
        tables, charts = self.tables(), self.charts()
        cards = [Card([table], heading=table.caption) for table in tables]
        return [*cards, Card(charts, self.words())] if charts else [*cards[:-1], Card([tables[-1]], self.words())]


def published_tables(rows: Sequence[PublishedRow]) -> list[Table]:
    """Methods by radius, ours above what was published."""
    return [_table(f"{table}, {dataset}", some) for (_, table, dataset), some in _by_table(rows).items()]


def _by_table(rows: Sequence[PublishedRow]) -> dict[tuple[str, str, str], list[PublishedRow]]:
    found: dict[tuple[str, str, str], list[PublishedRow]] = {}
    for row in rows:
        found.setdefault((row.document, row.table, row.dataset), []).append(row)
    return found


def _table(caption: str, rows: Sequence[PublishedRow]) -> Table:
    columns = list(dict.fromkeys((row.metric, row.level) for row in rows))
    heads = [
        Heading(_NAMES.get(metric, f"r = {level:g}" if level is not None else metric)) for metric, level in columns
    ]
    shown = []
    for method in dict.fromkeys(row.method for row in rows):
        by_column = {(row.metric, row.level): row for row in rows if row.method == method}
        cells = [_cell(by_column[column]) if column in by_column else Cell("") for column in columns]
        row = next(iter(by_column.values()))
        words = tuple(one for one in (row.model, row.takes) if one not in ("", method))
        plain = f"{method} ({'; '.join(words)})" if words else method
        shown.append(Row([Cell(method, words, plain, strong=True), *cells]))
    records = Records((*_COLUMNS, *_OF_OURS), [_record(row) for row in rows])
    return Table("published", [Heading("method"), *heads], shown, records, caption)


def _cell(row: PublishedRow) -> Cell:
    share = row.metric != "acr"
    printed = _number(row.published, share)
    if row.ours is None:
        return Cell("not run", (f"({printed})",), f"not run ({printed})")
    ours = f"{_number(row.ours.value, share)}{'+' if row.biased else ''}"
    return Cell(ours, (_limits(row.ours, share), f"({printed})"), f"{ours} ({printed})")


def _number(value: float, share: bool) -> str:
    return f"{100 * value:.1f} %" if share else f"{value:.4f}"


def _limits(e: Estimate, share: bool) -> str:
    low, high = (f"{100 * one:.1f}" if share else f"{one:.3f}" for one in (e.low, e.high))
    return f"{low} to {high}"


def _record(row: PublishedRow) -> list[object]:
    ours = [None] * 4 if row.ours is None else [row.ours.value, row.ours.low, row.ours.high, row.ours.n]
    named = [row.document, row.table, row.dataset, row.method, row.metric, row.level, row.published]
    return [*named, *ours, row.model, row.domain, row.biased]


def _chart(name: str, title: str, rows: Sequence[PublishedRow]) -> Chart:
    methods = list(dict.fromkeys(row.method for row in rows))
    values = [
        {"method": row.method, "radius": row.level, "share": share, "whose": whose}
        for row in rows
        for whose, share in ((_OURS, None if row.ours is None else row.ours.value), (_THEIRS, row.published))
        if share is not None
    ]
    bands = [
        {"method": row.method, "radius": row.level, "low": row.ours.low, "high": row.ours.high}
        for row in rows
        if row.ours is not None
    ]
    # the legend is that of the lines: of the bands it would be as faint as they are
    colour = {**by_colour("method", methods), "legend": {"symbolType": "circle", "symbolOpacity": 1}}
    levels = sorted({row.level for row in rows if row.level is not None})
    x = {**numbers_axis("radius", "radius"), "axis": {"values": levels, "format": "~g"}}
    limits = {"y": {**share_axis("low", "certified accuracy"), "title": "certified accuracy"}, "y2": {"field": "high"}}
    dash = {
        "field": "whose",
        "type": "nominal",
        "scale": {"domain": [_OURS, _THEIRS], "range": [[1, 0], [5, 4]]},
        "legend": {"symbolType": "stroke", "symbolSize": 400, "symbolStrokeWidth": 2, "symbolStrokeColor": SOFT},
    }
    y = share_axis("share", "certified accuracy")
    lines = layer(values, {"type": "line", "strokeWidth": 2}, x=x, y=y, color=colour, strokeDash=dash)
    dots = layer(values, {"type": "circle", "size": 26, "opacity": 1}, x=x, y=y, color=colour)
    band = layer(bands, {"type": "area", "opacity": 0.15}, x=x, color=colour, **limits)
    return make_chart(name, [band, lines, dots], title=f"{title}: certified accuracy by radius")
