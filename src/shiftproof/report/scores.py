"""Correlation of predicted with true numbers and their error, of every model on every domain, and what is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from shiftproof.evidence import Evidence, Measurement, seen_note, worst_seen
from shiftproof.report.accuracy import by_target, domain_columns, domain_headings
from shiftproof.report.estimates import Repeats, estimate, one_repeat
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.statistics import Pairs, bootstrap_difference, correlation, correlation_gap, over_seeds
from shiftproof.statistics.correlation import Correlation
from shiftproof.types import Estimate, FloatArray

__all__ = ["ERROR", "KINDS", "ScoreRow", "ScoreTable", "score_cell", "score_table"]

KINDS: tuple[Correlation, ...] = get_args(Correlation)
ERROR = "mean_absolute_error"
"""A model whose numbers are all twice as large as they should be correlates as well as any."""
_TITLES = {"pearson": "Pearson", "spearman": "Spearman", ERROR: "mean absolute error"}
_COLUMNS = ("model", "domain", "role", "metric", "value", "low", "high", "level", "n", "method", "seen_in_training")


@dataclass(frozen=True)
class ScoreRow:
    """One model: a correlation, or the mean error, on each domain, and by target what is lost between sources and it:
    how much lower a correlation is there, how much larger the error.
    """

    model: str
    kind: str
    scores: dict[str, Estimate]
    gaps: dict[str, Estimate]
    seen: Mapping[str, str] = field(default_factory=dict)

    def seen_in(self, domains: Iterable[str]) -> str:
        """The worst that is known of any of these domains: no | unknown | yes."""
        return worst_seen(self.seen.get(domain, "no") for domain in domains)


@dataclass(frozen=True)
class ScoreTable:
    """Figures per model and domain: a row for each kind, Pearson's and Spearman's correlation and the mean error."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    rows: list[ScoreRow]

    @property
    def domains(self) -> tuple[str, ...]:
        """Sources, then targets."""
        return (*self.sources, *self.targets)

    def to_table(self, name: str, about: Mapping[str, str]) -> Table:
        """Three rows for each model, with what it is about beside its name."""
        columns, rows = domain_columns(self.sources, self.targets), []
        for row in self.rows:
            cells = [
                score_cell(row.gaps[one.domain], "{:+.3f}", seen_note(row.seen_in(one.rests_on)))
                if one.gap
                else score_cell(row.scores[one.domain], "{:.3f}", seen_note(row.seen_in(one.rests_on)))
                for one in columns
            ]
            rows.append(Row([Cell(_TITLES[row.kind], strong=True), *cells], row.model, about.get(row.model, "")))
        counts = {domain: self.rows[0].scores[domain].n for domain in self.domains} if self.rows else {}
        headings = [
            Heading("gap", ("lost", *one.below[1:]), one.plain.replace(" in points", "")) if one.text == "gap" else one
            for one in domain_headings(columns, self.targets, counts)
        ]
        return Table(name, [Heading("figure"), *headings], rows, Records(_COLUMNS, list(self._records())))

    def _records(self) -> Iterator[list[Any]]:
        for row in self.rows:
            numbers = [(domain, row.kind, row.scores[domain], [domain]) for domain in self.domains]
            numbers += [(target, f"{row.kind} gap", e, [*self.sources, target]) for target, e in row.gaps.items()]
            for domain, metric, e, rests_on in numbers:
                role = "target" if domain in self.targets else "source"
                seen = row.seen_in(rests_on)
                yield [row.model, domain, role, metric, e.value, e.low, e.high, e.level, e.n, e.method, seen]

    def figures(self) -> dict[str, dict[str, Any]]:
        """Correlations, intervals and gaps by model, for JSON; of several targets, a gap by target."""
        found: dict[str, dict[str, Any]] = {}
        for kind in (*KINDS, ERROR):
            rows = [row for row in self.rows if row.kind == kind]
            found[kind] = {row.model: {d: e.value for d, e in row.scores.items()} for row in rows}
            found[f"{kind}_interval"] = {row.model: {d: [e.low, e.high] for d, e in row.scores.items()} for row in rows}
            found[f"{kind}_gap"] = {row.model: by_target({t: e.value for t, e in row.gaps.items()}) for row in rows}
            found[f"{kind}_gap_interval"] = {
                row.model: by_target({t: [e.low, e.high] for t, e in row.gaps.items()}) for row in rows
            }
        return found if self.rows else {}


def score_table(evidence: Evidence, sources: Sequence[str], targets: Sequence[str], seed: int = 0) -> ScoreTable:
    """From the measurements of the `score` probe."""
    measured, rows = evidence.where(probe="score"), []
    for model in measured.distinct("model"):
        repeats = {domain: one_repeat(measured, model=model, domain=domain) for domain in (*sources, *targets)}
        pairs = {domain: _pairs(one) for domain, one in repeats.items()}
        seen = {domain: one.seen_in_training for domain, one in repeats.items()}
        for kind in KINDS:
            scores = {domain: correlation(one, kind, seed) for domain, one in pairs.items()}
            lost = {
                target: correlation_gap([pairs[source] for source in sources], pairs[target], kind, seed)
                for target in targets
            }
            rows.append(ScoreRow(model, kind, scores, lost, seen))
        rows.append(_error_row(model, repeats, sources, targets, seed))
    return ScoreTable(tuple(sources), tuple(targets), rows)


def _error_row(
    model: str, repeats: Mapping[str, Repeats], sources: Sequence[str], targets: Sequence[str], seed: int
) -> ScoreRow:
    values = {domain: one.values(_errors) for domain, one in repeats.items()}
    lost = {}
    for target in targets:
        here, there = [values[source] for source in sources], values[target]
        per_seed = there.per_seed - np.mean([one.per_seed for one in here], axis=0)
        gap = bootstrap_difference([there.averaged], [one.averaged for one in here], seed)
        lost[target] = over_seeds(gap, per_seed.tolist())
    errors = {domain: estimate(one, exact=False, limits=None) for domain, one in values.items()}
    return ScoreRow(model, ERROR, errors, lost, {domain: one.seen_in_training for domain, one in repeats.items()})


def _errors(one: Measurement) -> FloatArray:
    apart: FloatArray = np.abs(one["predicted"] - one["truth"])
    return apart


def _pairs(repeats: Repeats) -> Pairs:
    first = repeats.first
    return Pairs(first["truth"], np.stack([one["predicted"] for one in repeats.measurements]), first.units_of)


def score_cell(e: Estimate, form: str, note: str = "") -> Cell:
    """A correlation or an error with its interval; `note` is what a reader should know of it."""
    text, low, high = (form.format(value) for value in (e.value, e.low, e.high))
    below = (f"{low} to {high}", *([note] if note else []))
    return Cell(text, below, f"{text} ({low} to {high})" + (f", {note}" if note else ""), strong=True)
