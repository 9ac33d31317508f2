"""The report of a run: tables and figures as files, and one HTML page that opens offline."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from shiftproof.certification import TOGETHER
from shiftproof.errors import UnknownName
from shiftproof.evidence import Evidence, seen_note, slug
from shiftproof.evidence.checks import constant_findings, counterfactual_findings, unsound_findings
from shiftproof.evidence.order import order_summary
from shiftproof.execution import write_atomically
from shiftproof.report.attacked import Attacked, attacked_chart, attacked_csv, attacked_of
from shiftproof.report.certified import (
    Series,
    band_text,
    by_chart,
    by_setting,
    certified_chart,
    certified_csv,
    nice_radii,
    series_of_evidence,
)
from shiftproof.report.chart import accuracy_chart, chart_png, chart_svg
from shiftproof.report.corrupted import GROUPS, Corrupted, corrupted_csv, corrupted_map, corrupted_of
from shiftproof.report.findings import certificate_findings, shift_findings
from shiftproof.report.matrix import Matrix, matrices_of
from shiftproof.report.measures import SideBySide, shared_rows, side_by_side
from shiftproof.report.requirements import Outcome
from shiftproof.report.searched import loss_changes_of, searched_of
from shiftproof.report.tables import Stressed, Table, accuracy_table, points, stressed_tables
from shiftproof.report.verdict import verdict_of
from shiftproof.types import Finding

__all__ = ["FORMATS", "Report", "render_page", "write_report"]

FORMATS = ("html", "csv", "markdown", "latex", "svg", "png")


@dataclass(frozen=True, eq=False)
class Report:
    """What a report says; every number is computed from `evidence` when it is written."""

    title: str
    about: str
    models: Mapping[str, str]
    sources: tuple[str, ...]
    target: str | None
    classes: tuple[str, ...]
    evidence: Evidence
    sheets: Mapping[str, Path]
    facts: Mapping[str, str]
    labels: Mapping[str, Mapping[str, int]]
    notes: Sequence[Finding]
    seed: int
    outcomes: Sequence[Outcome] = ()
    trained_here: bool = True
    radii: tuple[float, ...] = ()

    def note(self, model: str, domain: str) -> str:
        """What is said beside figures of a model on a domain, if it may have been trained on the samples."""
        return seen_note(self._seen.get((model, domain), "no"), ", ")

    @cached_property
    def _seen(self) -> dict[tuple[str, str], str]:
        rows = self.evidence
        return {
            (str(model), str(domain)): rows.where(model=model, domain=domain).seen_in_training
            for model in rows.distinct("model")
            for domain in rows.distinct("domain")
        }

    @property
    def seen_somewhere(self) -> bool:
        """Whether any figure rests on samples that a model may have been trained on."""
        return any(seen != "no" for seen in self._seen.values())

    def table(self) -> Table:
        """Accuracy per model and domain."""
        return accuracy_table(self.evidence, self.sources, self.target, self.seed)

    def stressed(self) -> list[Stressed]:
        """Accuracy under attack and under noise, if it was measured."""
        return stressed_tables(self.evidence, self.sources, self.target, self.seed)

    @cached_property
    def shared(self) -> Evidence:
        """Samples that all probes measured: figures that are compared are of these."""
        return shared_rows(self.evidence)

    @cached_property
    def measures(self) -> SideBySide:
        """Clean, attacked, corrupted and certified side by side."""
        return side_by_side(self.evidence, self.sources, self.target, self.seed)

    @cached_property
    def corrupted(self) -> list[Corrupted]:
        """Accuracy on corrupted samples, if it was measured."""
        return corrupted_of(self.shared)

    @cached_property
    def matrices(self) -> list[Matrix]:
        """Models by the size of attacks, where there are several sizes."""
        return matrices_of(self.shared, self.sources, self.target)

    @cached_property
    def attacked(self) -> list[list[Attacked]]:
        """Accuracy by the size of each attack, of runs with one model; of several, matrices show it."""
        every = attacked_of(self.evidence)
        if len(self.evidence.distinct("model")) != 1:
            return []
        return [
            [one for one in every if one.fact("attack") == name]
            for name in dict.fromkeys(o.fact("attack") for o in every)
        ]

    @cached_property
    def verdict(self) -> list[str]:
        """What was measured and guaranteed, in plain words; first of all whether it can be trusted."""
        said = verdict_of(self.shared, self.sources, self.target, self.seed)
        failed = [*self.notes, *order_summary(self.evidence)]
        codes = list(dict.fromkeys(one.code for one in failed if one.level == "fail"))
        doubt = f"What follows can't be trusted as it stands, because checks failed: {', '.join(codes)}."
        return [doubt, *said] if codes and said else said

    @cached_property
    def series(self) -> list[Series]:
        """Certificates per model and domain, if there are any."""
        return series_of_evidence(self.evidence)

    def radii_of(self, series: Sequence[Series]) -> tuple[float, ...]:
        """The radii that tables show: those that were asked for, or round ones."""
        return self.radii or nice_radii(series)

    def findings(self, table: Table) -> list[Finding]:
        """What a reader should take away."""
        guaranteed = certificate_findings(self.series, self.sources, self.target, self.seed)
        unsound, carried = unsound_findings(self.evidence), counterfactual_findings(self.evidence)
        ordered = [*constant_findings(self.evidence), *order_summary(self.evidence)]
        every = [*shift_findings(table, self.labels), *guaranteed, *unsound, *carried, *ordered, *self.notes]
        return sorted(every, key=lambda one: ("fail", "warn", "pass").index(one.level))


def write_report(report: Report, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the asked formats below `folder`; returns the paths, the HTML page first."""
    for name in formats:
        if name not in FORMATS:
            raise UnknownName("report format", name, FORMATS)
    table = report.table()
    chart = accuracy_chart(table, len(report.classes)) if table.rows else None
    texts = {"csv": (table.csv, "csv"), "markdown": (table.markdown, "md"), "latex": (table.latex, "tex")}
    written: dict[Path, bytes] = {}
    if "html" in formats:
        written[folder / "report.html"] = render_page(report).encode()
    for name, (render, suffix) in texts.items():
        if name in formats and table.rows:
            written[folder / "tables" / f"accuracy.{suffix}"] = render().encode()
    for one in report.stressed():
        if "csv" in formats:
            written[folder / "tables" / f"{slug(one.title)}.csv"] = one.table.csv().encode()
    charts = {} if chart is None else {"accuracy": chart}
    for number, answers in enumerate(report.attacked):
        stem = "attacked" if number == 0 else f"attacked-{number + 1}"
        if "csv" in formats:
            written[folder / "tables" / f"{stem}.csv"] = attacked_csv(answers).encode()
        if len(answers[0].attacks) > 1:
            charts[stem] = attacked_chart(answers)
    if "csv" in formats:
        measures, corrupted = report.measures, report.corrupted
        if len({row.measure.kind for row in measures.rows}) > 1:
            written[folder / "tables" / "measures.csv"] = measures.csv().encode()
        if corrupted:
            written[folder / "tables" / "corrupted.csv"] = corrupted_csv(corrupted).encode()
    for name, specification, matrix in _pictures(report):
        charts[name] = specification
        if matrix is not None and "csv" in formats:
            written[folder / "tables" / f"{name}.csv"] = matrix.csv().encode()
    if report.series and "csv" in formats:
        parts = [(series, report.radii_of(series)) for series in by_setting(report.series)]
        written[folder / "tables" / "certified.csv"] = certified_csv(parts).encode()
    for number, series in enumerate(by_chart(report.series, report.target)):
        charts["certified" if number == 0 else f"certified-{number + 1}"] = certified_chart(series, report.target)
    for name, specification in charts.items():
        if "svg" in formats:
            written[folder / "figures" / f"{name}.svg"] = chart_svg(specification).encode()
        if "png" in formats:
            written[folder / "figures" / f"{name}.png"] = chart_png(specification)
    for path, content in written.items():
        write_atomically(path, content)
    return list(written)


def _pictures(report: Report) -> Iterator[tuple[str, dict[str, Any], Matrix | None]]:
    """Heat maps of corruptions on the last domain, and of models by the size of attacks."""
    corrupted = report.corrupted
    if corrupted:
        yield "corrupted", corrupted_map(corrupted, report.target or report.sources[-1]), None
    for number, matrix in enumerate(report.matrices):
        stem = "matrix" if number == 0 else f"matrix-{number + 1}"
        for index, role in enumerate(matrix.values):
            yield f"{stem}-{role}", matrix.chart(role), matrix if index == 0 else None


@cache
def _template() -> Any:
    """The page's template, which takes half a second to compile."""
    environment = Environment(
        loader=PackageLoader("shiftproof.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"percent": "{:.1%}".format, "points": points, "figure": lambda value: f"{100 * value:.1f}"}
    return environment.get_template("page.html.j2")


def render_page(report: Report) -> str:
    """The report as one HTML page that needs nothing else."""
    table = report.table()
    chart = Markup(chart_svg(accuracy_chart(table, len(report.classes)))) if table.rows else ""
    guarantees: list[dict[str, Any]] = [
        {
            "series": series,
            "radii": report.radii_of(series),
            "curves": Markup(chart_svg(certified_chart(series, report.target))),
            "band": band_text(series),
        }
        for series in by_setting(report.series)
    ]
    page: str = _template().render(
        report=report,
        table=table,
        findings=report.findings(table),
        chart=chart,
        guarantees=guarantees,
        verdict=report.verdict,
        measures=report.measures,
        corrupted=report.corrupted,
        groups=[group for group in GROUPS if any(group in one.groups for one in report.corrupted)],
        pictures={name: Markup(chart_svg(specification)) for name, specification, _ in _pictures(report)},
        matrices=report.matrices,
        searched=searched_of(report.evidence),
        losses=loss_changes_of(report.evidence),
        stressed=report.stressed(),
        together=TOGETHER if any(part["series"][0].alpha for part in guarantees) else "",
        images={name: base64.b64encode(path.read_bytes()).decode() for name, path in report.sheets.items()},
    )
    return page
