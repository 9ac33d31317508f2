"""Clean, attacked, corrupted and certified side by side, on the same samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shiftproof.evidence import Evidence, seen_note
from shiftproof.report.accuracy import by_target, domain_cells, domain_columns, domain_headings
from shiftproof.report.measures import Measure, measures_of, shared_rows
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.types import Estimate

__all__ = ["Line", "Measures", "SideBySide", "line_of", "side_by_side"]


@dataclass(frozen=True)
class Line:
    """A row of the table: a measure of a model on each domain, and by target what is lost between sources and it."""

    measure: Measure
    accuracy: dict[str, Estimate]
    gaps: dict[str, Estimate]

    @property
    def model(self) -> str:
        """Model name."""
        return self.measure.model

    def note(self, domains: Iterable[str]) -> str:
        """A note beside a figure that rests on these domains, if their samples may have been trained on."""
        return seen_note(self.measure.seen_in(domains))


@dataclass(frozen=True)
class SideBySide:
    """All measures of all models, one row each, on sources and targets.

    `beyond` is how many samples of a domain some probes measured, where not all did: rows are of those that all did.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    rows: list[Line]
    beyond: Mapping[str, int] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """On which samples the rows stand, if these are not all."""
        if not self.beyond or not self.rows:
            return ""
        sizes = {
            domain: sorted({row.accuracy[domain].n for row in self.rows if domain in row.accuracy})
            for domain in self.beyond
        }
        shown = {domain: " or ".join(map(str, some)) for domain, some in sizes.items() if some}
        counts = ", ".join(f"{domain} {some} of {self.beyond[domain]}" for domain, some in shown.items())
        return (
            f"Every row is of the samples that all probes measured ({counts}), the first of one order; accuracy "
            "on samples as they are was measured on all"
        )

    @property
    def domains(self) -> tuple[str, ...]:
        """Sources, then targets."""
        return (*self.sources, *self.targets)

    @property
    def several(self) -> bool:
        """Whether there is more than one kind of measure, so that something stands side by side."""
        kinds = {row.measure.kind for row in self.rows}
        # an attack alone, as others have left it, is shown nowhere else
        return len(kinds) > 1 or (kinds == {"attacked"} and any(row.measure.imported for row in self.rows))

    def records(self) -> Records:
        """One line for each number, in full."""
        columns = ["model", "measure", "classifier", "norm", "size", "alpha", "domain", "value", "low", "high", "n"]
        rows: list[list[Any]] = []
        for row in self.rows:
            one = row.measure
            head = [one.model, one.title, one.classifier, one.norm, one.size, one.alpha]
            numbers = [(domain, row.accuracy[domain], [domain]) for domain in self.domains if domain in row.accuracy]
            for target, lost in row.gaps.items():
                named = "gap" if len(self.targets) == 1 else f"gap on {target}"
                numbers.append((named, lost, [*self.sources, target]))
            rows += [[*head, name, e.value, e.low, e.high, e.n, one.seen_in(rests_on)] for name, e, rests_on in numbers]
        return Records([*columns, "seen_in_training"], rows)

    def to_table(self, about: Mapping[str, str]) -> Table:
        """A row for each measure, below the name of its model and what that is about."""
        counts = {domain: e.n for row in reversed(self.rows) for domain, e in row.accuracy.items()}
        columns, rows = domain_columns(self.sources, self.targets), []
        for row in self.rows:
            one = row.measure
            guaranteed = one.kind == "certified"
            who = "the model itself" if one.classifier == "base" else f"{one.classifier} classifier"
            how = "imported" if one.imported else "guaranteed" if guaranteed else "measured"
            name = Cell(one.title, (f"{how}, {who}", one.relative))
            cells = domain_cells(columns, row.accuracy, row.gaps, row.note, strong=self.targets)
            rows.append(Row([name, *cells], one.model, about.get(one.model, ""), mark=guaranteed and not one.imported))
        headings = [Heading("right, of all samples"), *domain_headings(columns, self.targets, counts)]
        return Table("measures", headings, rows, self.records())

    def figures(self) -> list[dict[str, Any]]:
        """All that was measured, one object a row, for JSON; of several targets, a gap by target."""
        return [
            {
                "model": row.model,
                "kind": row.measure.kind,
                "title": row.measure.title,
                "classifier": row.measure.classifier,
                "norm": row.measure.norm,
                "size": row.measure.size,
                "relative_size": row.measure.relative,
                "alpha": row.measure.alpha,
                "n": {domain: e.n for domain, e in row.accuracy.items()},
                "value": {domain: e.value for domain, e in row.accuracy.items()},
                "interval": {domain: [e.low, e.high] for domain, e in row.accuracy.items()},
                "gap": by_target({target: e.value for target, e in row.gaps.items()}),
                "gap_interval": by_target({target: [e.low, e.high] for target, e in row.gaps.items()}),
                "seen_in_training": {domain: row.measure.seen_in([domain]) for domain in row.accuracy},
                "gap_seen_in_training": by_target(
                    {target: row.measure.seen_in([*self.sources, target]) for target in row.gaps}
                ),
            }
            for row in self.rows
        ]


def side_by_side(evidence: Evidence, sources: Sequence[str], targets: Sequence[str], seed: int = 0) -> SideBySide:
    """Rows by model, in the order clean, attacked, corrupted, certified; of the samples that all probes measured."""
    whole, evidence = evidence, shared_rows(evidence)
    domains = (*sources, *targets)
    rows = []
    models = evidence.distinct("model")
    for model in models:
        lines = (line_of(one, sources, targets, seed) for one in measures_of(evidence.where(model=model), model))
        rows += [line for line in lines if line is not None]
    beyond = {}
    for domain in domains:
        measured, shared = whole.where(domain=domain), evidence.where(domain=domain)
        if any(measured.where(model=model).samples != shared.where(model=model).samples for model in models):
            beyond[domain] = measured.samples
    return SideBySide(tuple(sources), tuple(targets), rows, beyond)


def line_of(measure: Measure, sources: Sequence[str], targets: Sequence[str], seed: int) -> Line | None:
    """A measure on every domain that it has, with what is lost; None where it is not of all targets, or without targets
    not of all domains, unless others measured it.
    """
    domains = (*sources, *targets)
    places, here = ([name for name in some if name in measure.samples] for some in (domains, sources))
    # what a target lacks is no measure of the study; models may have sources of their own, or none be measured by votes
    if not places or not (measure.imported or {*(targets or domains)} <= {*places}):
        return None
    lost = {name: measure.gap(here, name, seed) for name in targets if here and name in places}
    return Line(measure, {domain: measure.at(domain) for domain in places}, lost)


@SECTIONS.register("measures")
class Measures(Section):
    """Clean, attacked, corrupted and certified side by side, on the same samples."""

    title = "Clean, attacked, corrupted, guaranteed: the same samples"
    order = 600

    def applies(self) -> bool:
        """Whether there is more than one kind of measure."""
        return self.report.measures.several

    def tables(self) -> list[Table]:
        """A row for each model and measure."""
        return [self.report.measures.to_table(self.report.models)]

    def cards(self) -> list[Card]:
        """All measures of each model, folded where there are several: the overview has a line of each."""
        table, words = self.tables()[0], self.words()
        models = list(dict.fromkeys(row.group for row in table.rows))
        if len(models) == 1:
            return [Card([table], words)]
        cards = []
        for place, model in enumerate(models):
            rows = [replace(row, group="", note="") for row in table.rows if row.group == model]
            about = f": {self.report.models[model]}" if self.report.models.get(model) else ""
            last = words if place == len(models) - 1 else []
            cards.append(Card([replace(table, rows=rows)], last, f"{model}{about}", folded=True))
        return cards

    def words(self) -> list[str]:
        """What the rows are, and in which order they do not stand."""
        gap = "the gap is the mean over sources less the unseen domain"
        if len(self.report.targets) > 1:
            gap = "each gap is the mean over sources less the unseen domain beside it"
        return [
            f"{self.report.measures.note or 'Every row is of the same samples'}. Small figures are 95 % intervals, in "
            f"percent; {gap}. A better attack can only lower the "
            "accuracy under attack; a guarantee stays. Rows of different classifiers stand beside each other, and no "
            f"order between them is claimed. {self.report.measured_on}",
            *self.report.seed_words,
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """One object a row."""
        return self.report.measures.figures()
