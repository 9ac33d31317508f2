"""Accuracy per model and domain, as values and as csv, markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shiftproof.evidence import Evidence, metrics, seen_note, worst_seen
from shiftproof.report.cells import csv_text, latex_cell, markdown_cell
from shiftproof.types import Estimate

__all__ = ["Row", "Stressed", "Table", "accuracy_table", "stressed_tables"]

NOT_STRESSED = ("clean", "certify", "counterfactual", "corrupt", "attack", "search", "input-robustness")
"""Probes whose rows are shown in ways of their own."""


@dataclass(frozen=True)
class Row:
    """One model: accuracy on each domain, and what is lost between sources and target (None without a target).

    `seen` says of each domain whether the model was trained on the samples: no | unknown | yes.
    """

    model: str
    accuracy: dict[str, Estimate]
    gap: Estimate | None
    seen: Mapping[str, str] = field(default_factory=dict)

    def note(self, domain: str | None = None) -> str:
        """What is said beside the figure of a domain, or beside the gap, if its samples may have been trained on."""
        return seen_note(worst_seen(self.seen.values()) if domain is None else self.seen.get(domain, "no"))


@dataclass(frozen=True)
class Table:
    """Accuracy per model and domain. Domains stand in the order sources, target."""

    sources: tuple[str, ...]
    target: str | None
    rows: list[Row]

    @property
    def domains(self) -> tuple[str, ...]:
        """Sources, then the target."""
        return self.sources if self.target is None else (*self.sources, self.target)

    def cells(self) -> list[list[str]]:
        """Header and rows as text."""
        last = [] if self.target is None else ["gap in points"]
        header = ["model", *(self.heading(domain) for domain in self.domains), *last]
        rows = [
            [row.model, *(_noted(row.accuracy[domain].format(), row.note(domain)) for domain in self.domains)]
            + ([] if row.gap is None else [_noted(row.gap.format(points), row.note())])
            for row in self.rows
        ]
        return [header, *rows]

    def heading(self, domain: str) -> str:
        """A domain's name and whether it was trained on."""
        return f"{domain} ({'unseen' if domain == self.target else 'source'})"

    def csv(self) -> str:
        """One line for each model and domain, numbers in full."""
        header = ["model", "domain", "role", "metric", "value", "low", "high", "level", "n", "method"]
        lines: list[list[Any]] = [[*header, "seen_in_training"]]
        for row in self.rows:
            numbers = [(domain, "accuracy", row.accuracy[domain]) for domain in self.domains]
            numbers += [] if row.gap is None else [(self.target or "", "gap", row.gap)]
            for domain, metric, e in numbers:
                role = "target" if domain == self.target else "source"
                seen = worst_seen(row.seen.values()) if metric == "gap" else row.seen.get(domain, "no")
                lines.append([row.model, domain, role, metric, e.value, e.low, e.high, e.level, e.n, e.method, seen])
        return csv_text(lines)

    def markdown(self) -> str:
        """For a README or an issue."""
        header, *rows = self.cells()
        lines = [header, ["---"] * len(header), *rows]
        return "".join(f"| {' | '.join(markdown_cell(cell) for cell in line)} |\n" for line in lines)

    def latex(self) -> str:
        """A tabular for a paper."""
        header, *rows = [[latex_cell(cell) for cell in line] for line in self.cells()]
        body = "".join("  " + " & ".join(row) + r" \\" + "\n" for row in rows)
        columns = "l" + "r" * (len(header) - 1)
        return (
            f"\\begin{{tabular}}{{{columns}}}\n  \\hline\n  {' & '.join(header)} \\\\\n  \\hline\n"
            f"{body}  \\hline\n\\end{{tabular}}\n"
        )


@dataclass(frozen=True)
class Stressed:
    """Accuracy under an attack or noise, and of which classifier."""

    probe: str
    title: str
    classifier: str
    table: Table


def accuracy_table(evidence: Evidence, sources: Sequence[str], target: str | None, seed: int = 0) -> Table:
    """The table of a run, from the rows of its `clean` probe."""
    return _table(evidence.where(probe="clean"), sources, target, seed)


def stressed_tables(evidence: Evidence, sources: Sequence[str], target: str | None, seed: int = 0) -> list[Stressed]:
    """What other probes measured, one table a setting: accuracy under attack, under noise."""
    found = []
    for probe in evidence.distinct("probe"):
        if probe not in NOT_STRESSED:
            for rows in evidence.where(probe=probe).by("setting"):
                table = _table(rows, sources, target, seed)
                found.append(Stressed(str(probe), rows[0].title, rows[0].classifier, table))
    return found


def _table(evidence: Evidence, sources: Sequence[str], target: str | None, seed: int) -> Table:
    rows = []
    for model in evidence.distinct("model"):
        of_domain = {
            domain: evidence.get(model=model, domain=domain) for domain in (*sources, *([target] if target else []))
        }
        accuracy = {
            domain: metrics.accuracy(rows_["correct"], rows_["group"] if rows_.grouped else None)
            for domain, rows_ in of_domain.items()
        }
        gap = None
        if target is not None:
            gap = metrics.gap([of_domain[source].sample() for source in sources], of_domain[target].sample(), seed)
        seen = {domain: rows_.seen_in_training for domain, rows_ in of_domain.items()}
        rows.append(Row(model, accuracy, gap, seen))
    return Table(tuple(sources), target, rows)


def _noted(figure: str, note: str) -> str:
    return f"{figure}, {note}" if note else figure


def points(value: float) -> str:
    """A difference of two percentages.

    >>> points(0.664)
    '+66.4'
    """
    return f"{100 * value:+.1f}"
