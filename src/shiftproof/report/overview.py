"""Every model in one line: clean, attacked, corrupted and certified where it is shipped to, and what is lost there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from shiftproof.evidence import seen_note
from shiftproof.perturbations.threat import size_text
from shiftproof.report.measures import Kind, Measure
from shiftproof.report.representative import on_sources, representative_lines
from shiftproof.report.scores import ERROR, ScoreRow, score_cell
from shiftproof.report.sections.measures import Line
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell, points_cell
from shiftproof.types import Estimate

if TYPE_CHECKING:
    from shiftproof.report.report import Report

__all__ = ["Overview", "OverviewFigure", "OverviewRow", "overview_of"]

CORRELATION = "pearson"
_TITLES = {CORRELATION: "correlation", ERROR: "mean error"}
_KINDS = (*get_args(Kind), *_TITLES)
_COLUMNS = (
    *("model", "kind", "measure", "classifier", "norm", "size", "alpha", "domain", "value", "low", "high", "n"),
    *("sources", "lost", "lost_low", "lost_high", "seen_in_training"),
)


@dataclass(frozen=True)
class OverviewFigure:
    """One figure of a model's line, with all that it may be replaced by or compared with.

    Args:
        kind: clean | attacked | corrupted | certified, or of numbers pearson | mean_absolute_error.
        estimates: By target; without targets, by source.
        gaps: By target, what is lost between sources and it.
        sources: The mean over the sources, each of which weighs the same; None without sources.
        seen: By domain, whether the model was trained on the samples: no | unknown | yes.
        gap_seen: By target, the same of all that a gap rests on.
        words: What exactly was measured, in a few words: the size, the certificate, how many corruptions.
        measure: What the figure is of; None of numbers.
    """

    kind: str
    estimates: Mapping[str, Estimate]
    gaps: Mapping[str, Estimate]
    sources: float | None
    seen: Mapping[str, str]
    gap_seen: Mapping[str, str]
    words: tuple[str, ...] = ()
    measure: Measure | None = None

    @property
    def domain(self) -> str:
        """Where it is worst: the least share or correlation, the largest error."""
        worst = max if self.kind == ERROR else min
        return worst(self.estimates, key=lambda name: self.estimates[name].value)

    @property
    def there(self) -> Estimate:
        """The figure on that domain."""
        return self.estimates[self.domain]

    @property
    def lost(self) -> Estimate | None:
        """What is lost between sources and that domain; None where that is a source itself."""
        return self.gaps.get(self.domain)

    def cell(self, note: str = "", named: bool = False) -> Cell:
        """The figure with its interval, and whether its samples may have been trained on; `named` says where it is."""
        notes = "; ".join(part for part in (note, seen_note(self.seen.get(self.domain, "no"))) if part)
        share = self.measure is not None
        cell = percent_cell(self.there, notes, strong=True) if share else score_cell(self.there, "{:.3f}", notes)
        if not named:
            return cell
        return Cell(f"{cell.text} on {self.domain}", cell.below, f"{cell.plain} on {self.domain}", cell.strong)

    def lost_cell(self) -> Cell:
        """What is lost, in points for shares."""
        if self.lost is None:
            return Cell("-")
        note = seen_note(self.gap_seen.get(self.domain, "no"))
        return points_cell(self.lost, note) if self.measure is not None else score_cell(self.lost, "{:+.3f}", note)


@dataclass(frozen=True)
class OverviewRow:
    """A model, and its figure of each kind that was measured of it."""

    model: str
    figures: Mapping[str, OverviewFigure]


@dataclass(frozen=True)
class Overview:
    """One line a model. Every model is asked the same question; nothing was chosen by a number of a target.

    Of several targets every figure is the worst; without a target, the worst of the sources.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    rows: tuple[OverviewRow, ...]
    note: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of figures that any model has, in their order."""
        return tuple(kind for kind in _KINDS if any(kind in row.figures for row in self.rows))

    def column(self, kind: str) -> list[OverviewFigure]:
        """The figures of a kind, of the models that have one."""
        return [row.figures[kind] for row in self.rows if kind in row.figures]

    @property
    def domains(self) -> tuple[str, ...]:
        """Where figures stand: one domain, unless models or kinds are worst on different ones."""
        return tuple(dict.fromkeys(one.domain for row in self.rows for one in row.figures.values()))

    def common_words(self, kind: str) -> tuple[str, ...]:
        """What was measured, as far as it is the same of all models."""
        first, *others = [one.words for one in self.column(kind)]
        return tuple(word for word in first if all(word in words for words in others))

    @property
    def place(self) -> Heading:
        """The head of the first column: where the figures are of."""
        places = self.targets or self.sources
        # without a target nobody said what was trained on
        role = "unseen" if self.targets else "measured"
        of_several = f"worst of {len(places)} {'targets' if self.targets else 'domains'}"
        counts = self._counts
        count = [f"n = {next(iter(counts)):,}"] if len(counts) == 1 else []
        if len(self.domains) == 1:
            return Heading(f"on {self.domains[0]}", (of_several if len(places) > 1 else role, *count))
        return Heading(of_several, tuple(count))

    @property
    def _counts(self) -> set[int]:
        """How many samples figures rest on."""
        return {one.there.n for row in self.rows for one in row.figures.values()}

    @property
    def words(self) -> list[str]:
        """What the figures are, and how they were chosen where there was a choice."""
        sentences = []
        if self.targets and self.sources:
            sentences.append(f"Lost is what is less than the mean over the sources ({', '.join(self.sources)}).")
        if {"attacked", "certified"} <= {*self.kinds}:
            sentences.append(
                "Attacked is measured, a better attack may leave less; certified is guaranteed, of the classifier "
                "that its certificate is about."
            )
        elif "certified" in self.kinds:
            sentences.append("Certified is guaranteed, of the classifier that its certificate is about.")
        return [*sentences, *([f"{self.note}."] if self.note else [])]

    def to_table(self) -> Table:
        """A row for each model: every kind of figure with what is lost beside it."""
        headings, named = [self.place], len(self.domains) > 1
        for kind in self.kinds:
            headings.append(Heading(_TITLES.get(kind, kind), self.common_words(kind), tint=bool(self.targets)))
            if any(one.lost for one in self.column(kind)):
                unit = "points" if kind not in _TITLES else ""
                headings.append(Heading("lost", (unit,) if unit else (), f"lost, {_TITLES.get(kind, kind)}"))
        rows = [Row([Cell(row.model, strong=True), *self._cells(row, named)]) for row in self.rows]
        return Table("overview", headings, rows, Records(_COLUMNS, list(self._records())))

    def _cells(self, row: OverviewRow, named: bool) -> Iterator[Cell]:
        for kind in self.kinds:
            lost, figure = any(one.lost for one in self.column(kind)), row.figures.get(kind)
            if figure is None:
                yield from [Cell("-")] * (2 if lost else 1)
                continue
            common = self.common_words(kind)
            count = [f"n = {figure.there.n:,}"] if len(self._counts) > 1 else []
            yield figure.cell("; ".join([*(word for word in figure.words if word not in common), *count]), named)
            if lost:
                yield figure.lost_cell()

    def _records(self) -> Iterator[list[Any]]:
        for row in self.rows:
            for kind, one in row.figures.items():
                of, lost = one.measure, one.lost
                facts = [None] * 5 if of is None else [of.title, of.classifier, of.norm, of.size, of.alpha]
                there = [one.domain, one.there.value, one.there.low, one.there.high, one.there.n, one.sources]
                gap = [None] * 3 if lost is None else [lost.value, lost.low, lost.high]
                yield [
                    row.model,
                    kind,
                    *facts,
                    *there,
                    *gap,
                    (one.gap_seen if lost else one.seen).get(one.domain, "no"),
                ]


def overview_of(report: Report) -> Overview:
    """The figures of every model that a reader sees first; no rows where nothing of the kind was measured of any."""
    rows: list[OverviewRow] = []
    for model, lines in representative_lines(report).items():
        figures = [_of_line(line, report) for line in lines.values()]
        numbers = [row for row in report.scores.rows if row.model == model and row.kind in _TITLES]
        figures += [_of_scores(row, report.sources, report.targets) for row in numbers]
        rows.append(OverviewRow(model, {one.kind: one for one in figures if one.estimates}))
    measured = any(row.figures for row in rows)
    return Overview(report.sources, report.targets, tuple(rows if measured else ()), report.measures.note)


def _of_line(line: Line, report: Report) -> OverviewFigure:
    measure, sources = line.measure, [name for name in report.sources if name in line.accuracy]
    places = [name for name in report.targets or report.sources if name in line.accuracy]
    return OverviewFigure(
        measure.kind,
        {name: line.accuracy[name] for name in places},
        line.gaps,
        on_sources(line, sources) if sources else None,
        {name: measure.seen_in([name]) for name in places},
        {name: measure.seen_in([*sources, name]) for name in line.gaps},
        _words(measure),
        measure,
    )


def _of_scores(row: ScoreRow, sources: Sequence[str], targets: Sequence[str]) -> OverviewFigure:
    places = targets or sources
    return OverviewFigure(
        row.kind,
        {name: row.scores[name] for name in places},
        row.gaps,
        sum(row.scores[name].value for name in sources) / len(sources),
        {name: row.seen_in([name]) for name in places},
        {name: row.seen_in([*sources, name]) for name in row.gaps},
        ("Pearson",) if row.kind == CORRELATION else (),
    )


def _words(measure: Measure) -> tuple[str, ...]:
    """What exactly was measured: the size, of which classifier, by which certificate, how many corruptions."""
    if measure.kind == "clean":
        return ()
    if measure.kind == "corrupted":
        count, severity = measure.title.removeprefix("corrupted: mean of ").split(", ", 1)
        return f"{count} kind{'s' if count != '1' else ''}", severity
    within = size_text(measure.size, measure.norm)
    if measure.kind == "attacked":
        return (within, *([f"vote under {measure.noise}"] if measure.noise else []))
    name = measure.title.removeprefix(f"certified within {within}, ")
    return within, f"{name}, imported" if measure.imported and "imported" not in name else name
