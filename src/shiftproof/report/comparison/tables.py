"""Tables of a comparison: differences by measure and domain, the samples that changed, and all of it as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shiftproof.evidence import seen_note
from shiftproof.report.comparison.lines import Line
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, points

__all__ = ["SAMPLE_COLUMNS", "ModelPair", "changed_table", "difference_table", "few", "line_figures", "sample_rows"]

COLUMNS = (
    *("baseline_run", "baseline_model", "run", "model", "domain", "measure", "metric", "classifier", "norm", "size"),
    *("baseline", "baseline_low", "baseline_high", "other", "other_low", "other_high"),
    *("difference", "difference_low", "difference_high", "method", "n", "verdict", "gained", "lost"),
    *("seen_in_training", "note"),
)
SAMPLE_COLUMNS = (
    *("baseline_run", "baseline_model", "run", "model", "domain", "measure", "norm", "size"),
    *("id", "baseline", "other", "change"),
)


@dataclass(frozen=True, eq=False)
class ModelPair:
    """A model of the baseline and one of another run, and all that was compared of them.

    `baseline_run` and `run` are what the runs are called. `notes` are sentences about what was compared, `left_out`
    about what was not.
    """

    baseline_run: str
    baseline_model: str
    run: str
    model: str
    lines: Sequence[Line]
    domains: tuple[str, ...]
    targets: tuple[str, ...]
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Who stands against whom."""
        if self.baseline_run == self.run:
            return f"{self.model} against {self.baseline_model}"
        if self.baseline_model == self.model:
            return f"{self.model}: {self.run} against {self.baseline_run}"
        return f"{self.model} ({self.run}) against {self.baseline_model} ({self.baseline_run})"

    @property
    def names(self) -> list[str]:
        """The first cells of its records."""
        return [self.baseline_run, self.baseline_model, self.run, self.model]


def difference_table(pair: ModelPair) -> Table:
    """A row for each measure, a column for each domain: the difference, its interval, both figures, who changed."""
    counts = {line.domain: line.difference.n for line in reversed(pair.lines)}
    headings = [Heading("baseline -> other")]
    for domain in pair.domains:
        unseen = domain in pair.targets
        role = "unseen" if unseen else "source"
        headings.append(Heading(domain, (role, f"n = {counts[domain]}"), f"{domain} ({role})", tint=unseen))
    by_measure: dict[tuple[str, str], dict[str, Line]] = {}
    for line in pair.lines:
        by_measure.setdefault((line.title, line.classifier), {})[line.domain] = line
    rows = [
        Row(
            [
                Cell(title, ("the model itself" if classifier == "base" else f"{classifier} classifier",)),
                *(_cell(found.get(domain)) for domain in pair.domains),
            ],
            mark=next(iter(found.values())).metric in ("certified", "radius"),
        )
        for (title, classifier), found in by_measure.items()
    ]
    records = Records(COLUMNS, [[*pair.names, *_record(line)] for line in pair.lines])
    return Table("compare", headings, rows, records, caption=pair.title)


def _cell(line: Line | None) -> Cell:
    if line is None:
        return Cell("")
    form = points if line.is_share else "{:+.3g}".format
    figure = "{:.1%}".format if line.is_share else "{:.3g}".format
    found, (up, down) = line.difference, _words(line)
    decided = line.verdict if line.verdict != "undecided" else "not decided"
    below = (
        f"{form(found.low)} to {form(found.high)}",
        f"{figure(line.baseline.value)} -> {figure(line.other.value)}",
        f"{len(line.gained)} {up}, {len(line.lost)} {down}",
        *(text for text in (seen_note(line.seen), line.note) if text),
    )
    plain = f"{found.format(form)}{' points' if line.is_share else ''}; {'; '.join([decided, *below[1:]])}"
    return Cell(f"{form(found.value)}, {decided}", below, plain, strong=line.verdict != "undecided")


def _words(line: Line) -> tuple[str, str]:
    return ("gained", "lost") if line.is_share else ("grew", "shrank")


def _record(line: Line) -> list[Any]:
    ends = [(e.value, e.low, e.high) for e in (line.baseline, line.other, line.difference)]
    return [
        *(line.domain, line.title, line.metric, line.classifier, line.norm, line.size),
        *(number for three in ends for number in three),
        *(line.difference.method, line.difference.n, line.verdict, len(line.gained), len(line.lost)),
        *(line.seen, line.note),
    ]


def changed_table(pair: ModelPair, most: int = 8) -> Table:
    """Which samples gained or lost, a few of each; all of them are in samples.csv and in the JSON."""
    rows = []
    for line in pair.lines:
        if line.is_share and (line.gained or line.lost):
            rows.append(
                Row(
                    [
                        Cell(line.title, (line.domain,)),
                        Cell(str(len(line.gained)), (few(line.gained, most),)),
                        Cell(str(len(line.lost)), (few(line.lost, most),)),
                    ],
                    tint=line.domain in pair.targets,
                )
            )
    # one line a sample: an id may hold any character
    records = [row for row in sample_rows(pair, radii=False) if row[-1]]
    headings = [Heading("measure"), Heading("gained"), Heading("lost")]
    return Table("changed", headings, rows, Records(SAMPLE_COLUMNS, records), caption=pair.title)


def few(ids: Sequence[str], most: int = 5) -> str:
    """Some ids, and how many there are besides."""
    more = f" and {len(ids) - most} more" if len(ids) > most else ""
    return ", ".join(ids[:most]) + more


def sample_rows(pair: ModelPair, *, radii: bool = True) -> Iterator[list[Any]]:
    """Every sample of every measure, what it has on both sides, and whether it gained or lost; for samples.csv.

    Without `radii`, of measures that are shares alone.
    """
    for line in pair.lines:
        if not line.is_share and not radii:
            continue
        head = [*pair.names, line.domain, line.title, line.norm, line.size]
        changes = ("lost", "", "gained")
        for name, before, after in zip(line.ids, *line.values(), strict=True):
            sign = int(after > before) - int(after < before)
            yield [*head, str(name), float(before), float(after), changes[sign + 1]]


def line_figures(line: Line) -> dict[str, Any]:
    """A line for JSON, with all ids that changed."""
    estimates = {"baseline": line.baseline, "other": line.other, "difference": line.difference}
    return {
        "domain": line.domain,
        "measure": line.title,
        "metric": line.metric,
        "classifier": line.classifier,
        "norm": line.norm,
        "units": line.units,
        "size": line.size,
        **{name: {"value": e.value, "interval": [e.low, e.high], "method": e.method} for name, e in estimates.items()},
        "n": line.difference.n,
        "verdict": line.verdict,
        "gained": line.gained,
        "lost": line.lost,
        "seen_in_training": line.seen,
        "note": line.note,
    }
