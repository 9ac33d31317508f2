"""Our figures beside those of a publication: at every radius that its tables have, and as curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import SOURCE_DASH, Chart, Key, Panel, style_of
from shiftproof.display.marks import Band, Dots, Line, Mark, Style
from shiftproof.perturbations.threat import eps_text
from shiftproof.report.claims.published import PublishedRow
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.types import Estimate

__all__ = ["CLAIMED", "MOST_LACKING", "BesidePublished", "lacking_methods", "not_run_words", "published_tables"]

MOST_LACKING = 12
"""So many methods of a table that the study does not have are shown one by one; more are one line."""
CLAIMED = "claimed by the published rule, no guarantee"
"""What stands with figures of a rule that proves nothing."""

_COLUMNS = ("document", "table", "data set", "method", "metric", "radius", "published", "ours", "low", "high", "n")
_OF_OURS = ("model", "domain", "biased low", "ours is", "claimed without guarantee")
_NAMES = {
    "acr": "mean radius",
    "accuracy": "accuracy",
    "answers": "answers right",
    "reached": "reached by an input",
    "reached-representation": "reached by a representation",
}
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
            # a rule that proves nothing has no curve among certified ones
            certified = [row for row in rows if row.metric == "certified" and not row.claimed]
            certified = [row for row in certified if row.method not in lacking_methods(rows)]
            # a chart of published figures alone would be a reprint
            if len({row.level for row in certified}) > 2 and any(row.ours is not None for row in certified):
                charts.append(_chart(f"published-{len(charts) + 1}", f"{table}, {dataset}", certified))
        return charts

    def words(self) -> list[str]:
        """What stands beside what."""
        rows = self.report.published
        unsound = (
            f"Figures that are {CLAIMED}, are what that rule says of our models; nothing of it is certified, and no "
            "claim is judged by it."
        )
        return [
            "Upper figures are ours, with 95 % intervals over samples and training seeds; below them, in brackets, "
            "stands what was published, as it was printed. What the study did not measure is called not run, with what "
            "it would take where that was asked for (shiftproof estimate RUN). A mean radius with + is one at least: "
            "votes stopped once every radius of the table was decided.",
            *([unsound] if any(row.claimed for row in rows) else []),
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


def lacking_methods(rows: Sequence[PublishedRow]) -> dict[str, str]:
    """The methods of a table that the study does not have and that are too many to be shown, with what they take."""
    lacking = {row.method: row.takes for row in rows if not row.model}
    return lacking if len(lacking) > MOST_LACKING else {}


def not_run_words(lacking: Mapping[str, str], shown: int) -> str:
    """One line for all of them; where they all would take the same, it says what."""
    takes = set(lacking.values())
    more = f" ({takes.pop()})" if takes != {""} and len(takes) == 1 else ""
    return f"{len(lacking)} {'more ' if shown else ''}methods of the table were not run{more}"


def _table(caption: str, rows: Sequence[PublishedRow]) -> Table:
    lacking = lacking_methods(rows)
    records = Records((*_COLUMNS, *_OF_OURS), [_record(row) for row in rows])
    rows = [row for row in rows if row.method not in lacking]
    columns = list(dict.fromkeys((row.metric, row.level) for row in rows))
    heads = [Heading(_heading(metric, level)) for metric, level in columns]
    shown = list[Row]()
    for method in dict.fromkeys(row.method for row in rows):
        by_column = {(row.metric, row.level): row for row in rows if row.method == method}
        cells = [_cell(by_column[column]) if column in by_column else Cell("") for column in columns]
        row = next(iter(by_column.values()))
        claimed = CLAIMED if any(one.claimed for one in by_column.values()) else ""
        words = tuple(one for one in (row.model, row.measure, row.takes, claimed) if one not in ("", method))
        plain = f"{method} ({'; '.join(words)})" if words else method
        shown.append(Row([Cell(method, words, plain, strong=True), *cells]))
    if lacking:
        shown.append(Row([Cell(not_run_words(lacking, len(shown))), *(Cell("") for _ in columns)]))
    return Table("published", [Heading("method"), *heads], shown, records, caption)


def _heading(metric: str, level: float | None) -> str:
    if metric == "attacked" and level is not None:
        # documents print sizes of attacks without their norm, in 255ths
        return f"attacked, eps {eps_text(level)}"
    if metric.startswith("corrupted@"):
        what, _, severity = metric.removeprefix("corrupted@").rpartition(":")
        return f"{what or 'corrupted'}, severity {severity}" if severity.isdigit() else severity
    return _NAMES.get(metric, metric if level is None else f"r = {level:g}")


def _cell(row: PublishedRow) -> Cell:
    share = row.metric != "acr"
    printed = _number(row.published, share)
    if row.ours is None:
        return Cell("not run", (f"({printed})",), f"not run ({printed})")
    ours = f"{_number(row.ours.value, share)}{'+' if row.biased else ''}"
    ours = f"{ours} claimed" if row.claimed else ours
    return Cell(ours, (_limits(row.ours, share), f"({printed})"), f"{ours} ({printed})")


def _number(value: float, share: bool) -> str:
    return f"{100 * value:.1f} %" if share else f"{value:.4f}"


def _limits(e: Estimate, share: bool) -> str:
    low, high = (f"{100 * one:.1f}" if share else f"{one:.3f}" for one in (e.low, e.high))
    return f"{low} to {high}"


def _record(row: PublishedRow) -> list[object]:
    ours = [None] * 4 if row.ours is None else [row.ours.value, row.ours.low, row.ours.high, row.ours.n]
    named = [row.document, row.table, row.dataset, row.method, row.metric, row.level, row.published]
    return [*named, *ours, row.model, row.domain, row.biased, row.measure, row.claimed]


def _chart(name: str, title: str, rows: Sequence[PublishedRow]) -> Chart:
    styles = style_of(dict.fromkeys(row.method for row in rows))
    levels = sorted({row.level for row in rows if row.level is not None})
    marks = list[Mark]()
    for method, style in styles.items():
        here = [(row.level, row) for row in rows if row.method == method and row.level is not None]
        ours = [(level, row.ours) for level, row in here if row.ours is not None]
        published = [(level, row.published) for level, row in here if row.published is not None]
        told = {
            _OURS: ([(level, e.value) for level, e in ours], [f" ({_limits(e, True)})" for _, e in ours], style),
            _THEIRS: (published, [""] * len(published), replace(style, dash=SOURCE_DASH)),
        }
        marks.append(Band([(level, e.low, e.high) for level, e in ours], replace(style, opacity=0.15), (method, _OURS)))
        for whose, (points, more, look) in told.items():
            hints = [f"{method}, {whose}, radius {x:g}: {y:.1%}{end}" for (x, y), end in zip(points, more, strict=True)]
            marks += [Line(points, look, (method, whose)), Dots(points, style, (method, whose), hints, size=2.6)]
    keys = [Key(method, style, "dot") for method, style in styles.items()]
    keys += [Key(_OURS, Style(None)), Key(_THEIRS, Style(None, SOURCE_DASH))]
    panel = Panel(marks, numbers_axis("radius", levels, ticks=levels), share_axis("certified accuracy"))
    return Chart(name, [panel], keys, f"{title}: certified accuracy by radius")
