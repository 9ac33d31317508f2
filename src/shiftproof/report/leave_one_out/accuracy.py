"""Accuracy on every domain that was left out, as it is and attacked or corrupted, and what is lost on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shiftproof.report.differences import OneRun, mean_difference, mean_over_runs
from shiftproof.report.estimates import OverDomains
from shiftproof.report.leave_one_out.section import TargetSection
from shiftproof.report.measures import Measure, measures_of
from shiftproof.report.report import Report
from shiftproof.report.section import Card
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell, points
from shiftproof.types import Estimate

__all__ = ["AccuracyByTarget"]

_COLUMNS = ("measure", "classifier", "model", "target", "figure", "value", "low", "high", "n")


@dataclass(frozen=True, eq=False)
class _Line:
    """One measure of one model: on every target, and what is lost between its sources and each."""

    measure: str
    classifier: str
    model: str
    targets: dict[str, Estimate]
    lost: dict[str, Estimate]
    mean: Estimate
    mean_lost: Estimate | None


class AccuracyByTarget(TargetSection):
    """Accuracy on every domain that was left out."""

    title = "On the domain that was left out"

    def applies(self) -> bool:
        """Whether anything but certificates was measured."""
        return bool(self._lines)

    def tables(self) -> list[Table]:
        """One for each measure: models by targets, and the mean over these."""
        return [self._table(measure, classifier) for measure, classifier in self._measures]

    def words(self) -> list[str]:
        """What a column is."""
        return [
            "Every column is of models that were trained on all other domains. Below a figure are its 95 % interval, "
            "and the points that are lost between the mean over its sources and the target. The last column is the "
            "mean over these targets; its interval says nothing of others.",
            *self.report.parts[0].seed_words,
        ]

    def cards(self) -> list[Card]:
        """The tables, that of clean samples first; then what they are."""
        return [*(Card([table], heading=table.caption) for table in self.tables()), Card(words=self.words())]

    def to_json(self) -> list[dict[str, Any]]:
        """Every figure."""
        return [dict(zip(_COLUMNS, row, strict=True)) for line in self._lines for row in _records(line)]

    @cached_property
    def _lines(self) -> list[_Line]:
        found = [
            _line([(target, part, measure) for target, part, measure in of])
            for model in self.models
            for of in self._by_measure(model)
        ]
        order = list(dict.fromkeys((one.measure, one.classifier) for one in found))
        return sorted(found, key=lambda one: order.index((one.measure, one.classifier)))

    @property
    def _measures(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys((one.measure, one.classifier) for one in self._lines))

    def _by_measure(self, model: str) -> Iterator[list[tuple[str, Report, Measure]]]:
        """What was measured of a model in several runs, by measure; certificates have a section of their own."""
        groups: dict[tuple[str, str], list[tuple[str, Report, Measure]]] = {}
        for target, part in self.parts.items():
            for one in measures_of(part.shared, model):
                if one.kind != "certified" and target in one.samples:
                    groups.setdefault((one.title, one.classifier), []).append((target, part, one))
        yield from groups.values()

    def _table(self, measure: str, classifier: str) -> Table:
        lines = [one for one in self._lines if (one.measure, one.classifier) == (measure, classifier)]
        targets = list(self.parts)
        heads = [Heading("model"), *(Heading(name, ("left out",), tint=True) for name in targets)]
        heads.append(Heading("mean", (f"over {len(targets)} targets",)))
        rows = [Row([Cell(line.model, strong=True), *_cells(line, targets)]) for line in lines]
        title = measure if classifier == "base" else f"{measure}, {classifier} classifier"
        records = Records(_COLUMNS, [row for line in lines for row in _records(line)])
        return Table("by-target", heads, rows, records, title)


def _line(found: Sequence[tuple[str, Report, Measure]]) -> _Line:
    first, seed = found[0][2], found[0][1].seed
    lost, runs = {}, list[OneRun]()
    for target, part, measure in found:
        sources = [name for name in part.sources if name in measure.samples]
        if sources:
            lost[target] = measure.gap(sources, target, part.seed)
            there = OverDomains(tuple(measure.samples[name] for name in sources))
            runs.append(OneRun(there, measure.samples[target]))
    whole = len(runs) == len(found)
    several = len(found) > 1
    (one_lost,) = lost.values() if whole and not several else (None,)
    return _Line(
        first.title,
        first.classifier,
        first.model,
        {target: measure.at(target) for target, _, measure in found},
        lost,
        mean_over_runs([measure.samples[target] for target, _, measure in found], (0.0, 1.0))
        if several
        else first.at(found[0][0]),
        mean_difference(runs, (0.0, 1.0), shares=True, seed=seed)(0.95) if whole and several else one_lost,
    )


def _cells(line: _Line, targets: Sequence[str]) -> list[Cell]:
    cells = [_cell(line.targets[name], line.lost.get(name)) if name in line.targets else Cell("-") for name in targets]
    return [*cells, _cell(line.mean, line.mean_lost) if len(line.targets) == len(targets) else Cell("-")]


def _cell(e: Estimate, lost: Estimate | None) -> Cell:
    cell = percent_cell(e)
    if lost is None:
        return cell
    gap = f"lost {points(lost.value)} ({points(lost.low)} to {points(lost.high)})"
    return Cell(cell.text, (*cell.below, gap), f"{cell}; {gap}")


def _records(line: _Line) -> Iterator[list[Any]]:
    head = [line.measure, line.classifier, line.model]
    told = (("accuracy", line.targets, line.mean), ("lost from sources", line.lost, line.mean_lost))
    for figure, by_target, mean in told:
        for target, e in by_target.items():
            yield [*head, target, figure, e.value, e.low, e.high, e.n]
        if mean is not None:
            yield [*head, "mean over targets", figure, mean.value, mean.low, mean.high, mean.n]
