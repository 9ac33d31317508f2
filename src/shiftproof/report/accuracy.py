"""Accuracy of every model on every domain, and what is lost between sources and each target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shiftproof.evidence import Evidence, seen_note, worst_seen
from shiftproof.report.draws import draws_of, share_right
from shiftproof.report.estimates import estimate, gap, one_repeat
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell, points_cell
from shiftproof.types import Estimate

__all__ = [
    "AccuracyRow",
    "AccuracyTable",
    "Column",
    "ProbeTable",
    "accuracy_table",
    "by_target",
    "domain_cells",
    "domain_columns",
    "domain_heading",
    "domain_headings",
    "probe_tables",
]

SHOWN_ELSEWHERE = (
    *("clean", "certify", "counterfactual", "corrupt", "attack", "search", "input-robustness", "hidden-state", "score"),
    *("trials", "refute"),
)
"""Probes that have a section of their own."""
_COLUMNS = ("model", "domain", "role", "metric", "value", "low", "high", "level", "n", "method", "seen_in_training")


@dataclass(frozen=True)
class Column:
    """A column of tables by domain: the figure of a domain or what is lost there, and the domains it rests on."""

    domain: str
    rests_on: tuple[str, ...]
    gap: bool = False


@dataclass(frozen=True)
class AccuracyRow:
    """One model: accuracy on each domain, and by target what is lost between sources and it.

    `seen` says of each domain whether the model was trained on the samples: no | unknown | yes.
    """

    model: str
    accuracy: dict[str, Estimate]
    gaps: dict[str, Estimate]
    seen: Mapping[str, str] = field(default_factory=dict)

    def seen_in(self, domains: Iterable[str]) -> str:
        """The worst that is known of any of these domains: no | unknown | yes."""
        return worst_seen(self.seen.get(domain, "no") for domain in domains)

    def note(self, domains: Iterable[str]) -> str:
        """A note beside a figure that rests on these domains, if their samples may have been trained on."""
        return seen_note(self.seen_in(domains))


@dataclass(frozen=True)
class AccuracyTable:
    """Accuracy per model and domain."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    rows: list[AccuracyRow]

    @property
    def domains(self) -> tuple[str, ...]:
        """Sources, then targets."""
        return (*self.sources, *self.targets)

    def to_table(self, name: str, about: Mapping[str, str], caption: str = "") -> Table:
        """A row for each model, with what it is about below its name."""
        columns, rows = domain_columns(self.sources, self.targets), []
        for row in self.rows:
            model = Cell(row.model, (about.get(row.model, ""),), row.model, strong=True)
            cells = domain_cells(columns, row.accuracy, row.gaps, row.note, strong=self.domains)
            rows.append(Row([model, *cells]))
        counts = {domain: e.n for row in reversed(self.rows) for domain, e in row.accuracy.items()}
        headings = [Heading("model"), *domain_headings(columns, self.targets, counts)]
        return Table(name, headings, rows, Records(_COLUMNS, list(self._records())), caption)

    def _records(self) -> Iterator[list[Any]]:
        for row in self.rows:
            numbers = [(name, "accuracy", row.accuracy[name], [name]) for name in self.domains if name in row.accuracy]
            numbers += [(target, "gap", lost, [*self.sources, target]) for target, lost in row.gaps.items()]
            for domain, metric, e, rests_on in numbers:
                role = "target" if domain in self.targets else "source"
                seen = row.seen_in(rests_on)
                yield [row.model, domain, role, metric, e.value, e.low, e.high, e.level, e.n, e.method, seen]

    def figures(self) -> dict[str, dict[str, Any]]:
        """Accuracy, intervals and gaps by model, for JSON; of several targets, a gap by target."""
        return {
            "accuracy": {row.model: {d: e.value for d, e in row.accuracy.items()} for row in self.rows},
            "interval": {row.model: {d: [e.low, e.high] for d, e in row.accuracy.items()} for row in self.rows},
            "gap": {row.model: by_target({t: e.value for t, e in row.gaps.items()}) for row in self.rows},
            "gap_interval": {
                row.model: by_target({t: [e.low, e.high] for t, e in row.gaps.items()}) for row in self.rows
            },
            "seen_in_training": {row.model: {d: row.seen.get(d, "no") for d in row.accuracy} for row in self.rows},
        }


@dataclass(frozen=True)
class ProbeTable:
    """Accuracy as a further probe measured it (under noise, by a plug-in), and of which classifier.

    One that is `in_section` stands in the report's section on noise, beside others.
    """

    probe: str
    title: str
    classifier: str
    table: AccuracyTable
    in_section: bool = False


def accuracy_table(evidence: Evidence, sources: Sequence[str], targets: Sequence[str], seed: int = 0) -> AccuracyTable:
    """Clean accuracy, from the measurements of the `clean` probe."""
    return _table(evidence.where(probe="clean"), sources, targets, seed)


def probe_tables(evidence: Evidence, sources: Sequence[str], targets: Sequence[str], seed: int = 0) -> list[ProbeTable]:
    """What probes without a section of their own measured, one table a setting."""
    tables = []
    for probe in evidence.distinct("probe"):
        if probe not in SHOWN_ELSEWHERE:
            for part in evidence.where(probe=probe).by("setting"):
                table = _table(part, sources, targets, seed)
                in_section = probe == "noisy" and part[0].fact("asked") is not None
                tables.append(ProbeTable(str(probe), part[0].title, part[0].classifier, table, in_section))
    return tables


def by_target(figures: Mapping[str, Any]) -> Any:
    """What JSON says of gaps: of one target the figure itself, of several each by its target, None without any."""
    return dict(figures) if len(figures) > 1 else next(iter(figures.values()), None)


def domain_heading(domain: str, targets: Sequence[str]) -> str:
    """A domain's name, and whether it was trained on."""
    return f"{domain} ({'unseen' if domain in targets else 'source'})"


def domain_columns(sources: Sequence[str], targets: Sequence[str]) -> list[Column]:
    """The columns of tables by domain, in one order wherever they are shown: every target with what is lost there,
    then the sources.
    """
    pairs = [(Column(target, (target,)), Column(target, (*sources, target), gap=True)) for target in targets]
    return [*(column for pair in pairs for column in pair), *(Column(source, (source,)) for source in sources)]


def domain_headings(columns: Sequence[Column], targets: Sequence[str], counts: Mapping[str, int]) -> list[Heading]:
    """The heads of `domain_columns`; `counts` are the samples of each domain."""
    headings = []
    for column in columns:
        name, unseen = column.domain, column.domain in targets
        if column.gap:
            lost = Heading("gap", ("points lost",), "gap in points")
            one_of_several = Heading("gap", ("points lost", f"on {name}"), f"gap on {name} in points")
            headings.append(one_of_several if len(targets) > 1 else lost)
        else:
            below = ("unseen" if unseen else "source", *([f"n = {counts[name]}"] if name in counts else []))
            headings.append(Heading(name, below, domain_heading(name, targets), tint=unseen))
    return headings


def domain_cells(
    columns: Sequence[Column],
    accuracy: Mapping[str, Estimate],
    gaps: Mapping[str, Estimate],
    note: Callable[[Iterable[str]], str],
    strong: Sequence[str] = (),
) -> list[Cell]:
    """The cells of `domain_columns`: `note` is of the domains that a figure rests on, `strong` are in large print."""
    whole = bool(strong) and set(accuracy) <= {*strong}
    # not every model of an import was measured everywhere
    return [
        Cell("-")
        if one.domain not in (gaps if one.gap else accuracy)
        else points_cell(gaps[one.domain], note(one.rests_on), strong=whole)
        if one.gap
        else percent_cell(accuracy[one.domain], note(one.rests_on), strong=one.domain in strong)
        for one in columns
    ]


def _table(evidence: Evidence, sources: Sequence[str], targets: Sequence[str], seed: int) -> AccuracyTable:
    domains = (*sources, *targets)
    rows = []
    for model in evidence.distinct("model"):
        places = [domain for domain in domains if len(evidence.where(model=model, domain=domain))]
        repeats = {domain: one_repeat(evidence, model=model, domain=domain) for domain in places}
        several = any(len(draws_of(one.first)) > 1 for one in repeats.values())
        values = {domain: one.values(share_right) if several else one.values() for domain, one in repeats.items()}
        accuracy = {
            domain: estimate(values[domain], exact=not (several or repeats[domain].grouped)) for domain in places
        }
        here = [values[source] for source in sources if source in values]
        lost = {target: gap(here, values[target], seed) for target in targets if here and target in values}
        rows.append(AccuracyRow(model, accuracy, lost, {name: one.seen_in_training for name, one in repeats.items()}))
    return AccuracyTable(tuple(sources), tuple(targets), rows)
