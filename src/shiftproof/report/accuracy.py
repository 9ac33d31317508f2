"""Accuracy of every model on every domain, and what is lost between sources and target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shiftproof.evidence import Evidence, seen_note, worst_seen
from shiftproof.report.estimates import estimate, gap, one_repeat
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell, points_cell
from shiftproof.types import Estimate

__all__ = [
    "AccuracyRow",
    "AccuracyTable",
    "ProbeTable",
    "accuracy_table",
    "domain_cells",
    "domain_columns",
    "domain_heading",
    "domain_headings",
    "probe_tables",
]

SHOWN_ELSEWHERE = (
    *("clean", "certify", "counterfactual", "corrupt", "attack", "search", "input-robustness", "hidden-state"),
)
"""Probes that have a section of their own."""
_COLUMNS = ("model", "domain", "role", "metric", "value", "low", "high", "level", "n", "method", "seen_in_training")


@dataclass(frozen=True)
class AccuracyRow:
    """One model: accuracy on each domain, and what is lost between sources and target (None without a target).

    `seen` says of each domain whether the model was trained on the samples: no | unknown | yes.
    """

    model: str
    accuracy: dict[str, Estimate]
    gap: Estimate | None
    seen: Mapping[str, str] = field(default_factory=dict)

    def note(self, domain: str | None = None) -> str:
        """A note beside the figure of a domain, or beside the gap, if its samples may have been trained on."""
        return seen_note(worst_seen(self.seen.values()) if domain is None else self.seen.get(domain, "no"))


@dataclass(frozen=True)
class AccuracyTable:
    """Accuracy per model and domain."""

    sources: tuple[str, ...]
    target: str | None
    rows: list[AccuracyRow]

    @property
    def domains(self) -> tuple[str, ...]:
        """Sources, then the target."""
        return self.sources if self.target is None else (*self.sources, self.target)

    def to_table(self, name: str, about: Mapping[str, str], caption: str = "") -> Table:
        """A row for each model, with what it is about below its name."""
        columns, rows = domain_columns(self.sources, self.target), []
        for row in self.rows:
            model = Cell(row.model, (about.get(row.model, ""),), row.model, strong=True)
            notes = {domain: row.note(domain) for domain in self.domains}
            cells = domain_cells(columns, row.accuracy, row.gap, notes, row.note(), strong=self.domains)
            rows.append(Row([model, *cells]))
        counts = {domain: self.rows[0].accuracy[domain].n for domain in self.domains} if self.rows else {}
        headings = [Heading("model"), *domain_headings(self.sources, self.target, counts)]
        return Table(name, headings, rows, Records(_COLUMNS, list(self._records())), caption)

    def _records(self) -> Iterator[list[Any]]:
        for row in self.rows:
            numbers = [(domain, "accuracy", row.accuracy[domain]) for domain in self.domains]
            numbers += [] if row.gap is None else [(self.target or "", "gap", row.gap)]
            for domain, metric, e in numbers:
                role = "target" if domain == self.target else "source"
                seen = worst_seen(row.seen.values()) if metric == "gap" else row.seen.get(domain, "no")
                yield [row.model, domain, role, metric, e.value, e.low, e.high, e.level, e.n, e.method, seen]

    def figures(self) -> dict[str, dict[str, Any]]:
        """Accuracy, intervals and gaps by model, for JSON."""
        return {
            "accuracy": {row.model: {d: e.value for d, e in row.accuracy.items()} for row in self.rows},
            "interval": {row.model: {d: [e.low, e.high] for d, e in row.accuracy.items()} for row in self.rows},
            "gap": {row.model: None if row.gap is None else row.gap.value for row in self.rows},
            "gap_interval": {row.model: None if row.gap is None else [row.gap.low, row.gap.high] for row in self.rows},
            "seen_in_training": {row.model: {d: row.seen.get(d, "no") for d in row.accuracy} for row in self.rows},
        }


@dataclass(frozen=True)
class ProbeTable:
    """Accuracy as a further probe measured it (under noise, by a plug-in), and of which classifier."""

    probe: str
    title: str
    classifier: str
    table: AccuracyTable


def accuracy_table(evidence: Evidence, sources: Sequence[str], target: str | None, seed: int = 0) -> AccuracyTable:
    """Clean accuracy, from the measurements of the `clean` probe."""
    return _table(evidence.where(probe="clean"), sources, target, seed)


def probe_tables(evidence: Evidence, sources: Sequence[str], target: str | None, seed: int = 0) -> list[ProbeTable]:
    """What probes without a section of their own measured, one table a setting."""
    tables = []
    for probe in evidence.distinct("probe"):
        if probe not in SHOWN_ELSEWHERE:
            for part in evidence.where(probe=probe).by("setting"):
                table = _table(part, sources, target, seed)
                tables.append(ProbeTable(str(probe), part[0].title, part[0].classifier, table))
    return tables


def domain_heading(domain: str, target: str | None) -> str:
    """A domain's name, and whether it was trained on."""
    return f"{domain} ({'unseen' if domain == target else 'source'})"


def domain_columns(sources: Sequence[str], target: str | None) -> list[str | None]:
    """The columns of tables by domain, in one order wherever they are shown: the target, what is lost there (None),
    then the sources.
    """
    return list(sources) if target is None else [target, None, *sources]


def domain_headings(sources: Sequence[str], target: str | None, counts: Mapping[str, int]) -> list[Heading]:
    """The heads of `domain_columns`; `counts` are the samples of each domain."""
    return [
        Heading("gap", ("points lost",), "gap in points")
        if domain is None
        else Heading(
            domain,
            ("unseen" if domain == target else "source", *([f"n = {counts[domain]}"] if domain in counts else [])),
            domain_heading(domain, target),
            tint=domain == target,
        )
        for domain in domain_columns(sources, target)
    ]


def domain_cells(
    columns: Sequence[str | None],
    accuracy: Mapping[str, Estimate],
    gap: Estimate | None,
    notes: Mapping[str, str],
    note: str,
    strong: Sequence[str | None] = (),
) -> list[Cell]:
    """The cells of `domain_columns`: `notes` by domain, `note` for the gap, `strong` those in large print."""
    lost = [] if gap is None else [points_cell(gap, note, strong=bool(strong) and set(accuracy) <= {*strong})]
    cells = {domain: percent_cell(accuracy[domain], notes[domain], strong=domain in strong) for domain in accuracy}
    return [cell for domain in columns for cell in (lost if domain is None else [cells[domain]])]


def _table(evidence: Evidence, sources: Sequence[str], target: str | None, seed: int) -> AccuracyTable:
    domains = (*sources, *([target] if target else []))
    rows = []
    for model in evidence.distinct("model"):
        repeats = {domain: one_repeat(evidence, model=model, domain=domain) for domain in domains}
        values = {domain: one.values() for domain, one in repeats.items()}
        accuracy = {domain: estimate(values[domain], exact=not repeats[domain].grouped) for domain in domains}
        lost = None if target is None else gap([values[source] for source in sources], values[target], seed)
        rows.append(AccuracyRow(model, accuracy, lost, {name: one.seen_in_training for name, one in repeats.items()}))
    return AccuracyTable(tuple(sources), target, rows)
