"""A page for the documents of a project: a study's figures beside the published ones, its verdicts and its figures.

It is made from evidence alone, but for remarks that somebody has written: what differs from the publication, and why.
"""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.report.cells import markdown_cell
from shiftproof.report.certified import Series
from shiftproof.report.claims.judge import ClaimOutcome
from shiftproof.report.claims.published import PublishedRow
from shiftproof.report.report import Report
from shiftproof.report.section import Section
from shiftproof.report.sections.claims import short_table
from shiftproof.report.sections.published import CLAIMED, lacking_methods, not_run_words, published_tables
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, csv_file, markdown_file

__all__ = ["reproduction_files"]

_SHOWN = ("published", "sweeps", "under-noise")
"""Sections whose charts stand on the page."""
_CHAPTERS = ("under-noise", "refuted", "levels", "agreement", "search", "sweeps", "best-values", "loss-change")
"""Sections whose tables stand on the page, each with its words."""


def reproduction_files(report: Report, name: str, command: str, compute: str, remarks: str = "") -> dict[str, bytes]:
    """The page, its tables as CSV and its figures as SVG, by path: NAME.md, and what it shows below NAME/.

    Args:
        command: The one command that makes all of it again.
        compute: What it took, in a sentence.
        remarks: What differs from the publication, and why, in Markdown.
    """
    charts = [chart for section in _SHOWN if section in report.sections for chart in report.sections[section].charts()]
    everything = _all_models(report)
    parts = [
        f"# {report.title}",
        *([report.about] if report.about else []),
        f"```sh\n{command}\n```",
        compute,
        *_verdicts(report.claims),
        *_beside(report.published, report.facts.get("data", "").split(";")[0]),
        *(["## All models", _all_words(report), markdown_file([everything]).strip()] if everything.rows else []),
        *(part for key in _CHAPTERS if key in report.sections for part in _chapter(report.sections[key])),
        *(["## Figures"] if charts or report.gradients else []),
        *(f"![{chart.title or chart.name}]({name}/{chart.name}.svg)" for chart in charts),
        *(f"![Loss gradients on {domain}]({name}/{path.name})" for domain, path in report.gradients.items()),
        *(["## What differs, and why", remarks.strip()] if remarks.strip() else []),
        *_not_run(report),
        "## How it was computed",
        "\n".join(
            f"- {key}: {report.facts[key]}" for key in ("date", "data", "computed with", "on") if key in report.facts
        ),
    ]
    files = {f"{name}.md": "\n\n".join(parts).encode() + b"\n"}
    files |= {f"{name}/{chart.name}.svg": chart.svg().encode() for chart in charts}
    files |= {f"{name}/{path.name}": path.read_bytes() for path in report.gradients.values()}
    told = dict.fromkeys(("claims", *_SHOWN, *_CHAPTERS))
    tables = [*([everything] if everything.rows else []), *(table for key in told for table in _tables(report, key))]
    by_name: dict[str, list[Table]] = {}
    for table in tables:
        by_name.setdefault(table.name, []).append(table)
    return files | {f"{name}/{key}.csv": csv_file(some).encode() for key, some in by_name.items()}


def _chapter(section: Section) -> list[str]:
    """A section as Markdown: its heading, its words, its tables."""
    return [f"## {section.title}", " ".join(section.words()), markdown_file(section.tables()).strip()]


def _tables(report: Report, section: str) -> list[Table]:
    return report.sections[section].tables() if section in report.sections else []


def _verdicts(claims: Sequence[ClaimOutcome]) -> list[str]:
    if not claims:
        return []
    short = short_table(claims)
    heads = [short.headings[0], Heading("what it says"), *short.headings[1:], Heading("why")]
    rows = [
        Row([row.cells[0], Cell(one.says), *row.cells[1:], Cell(one.why)])
        for row, one in zip(short.rows, claims, strict=True)
    ]
    words = (
        "Claims were written into the study, with the smallest effect that matters, before anything was trained. "
        "Supported: the whole interval of the difference (95 % unless a claim says otherwise), corrected for the "
        "number of claims (Holm), lies beyond that effect; contradicted: short of it; undecided: neither."
    )
    return ["## Verdicts", markdown_file([Table("verdicts", heads, rows)]).strip(), words]


def _beside(published: Sequence[PublishedRow], data: str) -> list[str]:
    if not published:
        return []
    words = "Ours, and in brackets what was published; intervals are in the CSV files."
    if any(row.biased for row in published):
        words += " A mean radius with + is one at least: votes stopped once every radius of the table was decided."
    if any(row.claimed for row in published):
        words += f" Figures that are {CLAIMED}, are what that rule says of our models; nothing of it is certified."
    parts = ["## Beside the publication", words]
    for table in published_tables(published):
        measured = dict.fromkeys(
            row.domain for row in published if row.ours is not None and f"{row.table}, {row.dataset}" == table.caption
        )
        where = f"Ours: {data}, measured on {', '.join(measured)}." if measured else ""
        parts += [f"### {table.caption}", *([where] if where else []), markdown_file([table]).strip()]
    ratios = _ratios(published)
    return [*parts, *([markdown_file([ratios]).strip()] if ratios is not None else [])]


def _ratios(published: Sequence[PublishedRow]) -> Table | None:
    """How many times the mean radius of every other method that of the published best is."""
    radii = [row for row in published if row.metric == "acr" and row.ours is not None and not row.claimed]
    by_table: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in radii:
        by_table.setdefault((row.table, row.dataset), []).append(row)
    rows = []
    for (table, dataset), some in by_table.items():
        best = max(some, key=lambda row: row.published)
        for row in some:
            if row is best or row.ours is None or best.ours is None:
                continue
            ours = "-" if row.ours.value <= 0 else f"{best.ours.value / row.ours.value:.2f}"
            # a radius that is one at least, below the line, makes the ratio one at most
            ours = f"at most {ours}" if row.biased and not best.biased else f"about {ours}" if best.biased else ours
            compared = f"{best.method} over {row.method}"
            rows.append(
                Row(
                    [
                        Cell(f"{table}, {dataset}"),
                        Cell(compared),
                        Cell(ours),
                        Cell(f"{best.published / row.published:.2f}"),
                    ]
                )
            )
    heads = [Heading(text) for text in ("table", "ratio of mean radii", "ours", "published")]
    return Table("ratios", heads, rows) if rows else None


def _radii(report: Report) -> tuple[float, ...]:
    levels = sorted({row.level for row in report.published if row.level is not None})
    return tuple(levels) or report.radii_of(report.series)


def _targets(report: Report) -> list[Series]:
    return [one for one in report.series if one.domain in report.targets] or list(report.series)


def _all_models(report: Report) -> Table:
    """Certified accuracy of every model and certificate on the targets, at the radii of the publication."""
    radii = _radii(report)
    heads = [Heading(text) for text in ("model", "domain", "certificate", "n")]
    heads += [Heading(f"r = {radius:g}") for radius in radii] + [Heading("mean radius")]
    rows, records = [], []
    for one in _targets(report):
        figures = [one.at(radius) for radius in radii]
        mean = f"{one.mean_radius():.4f}{'+' if one.biased else ''}"
        cells = [
            one.model,
            one.domain,
            one.title,
            f"{one.images:,}",
            *(f"{100 * e.value:.1f} %" for e in figures),
            mean,
        ]
        rows.append(Row([Cell(text) for text in cells]))
        head = [one.model, one.domain, one.title]
        records += [[*head, "certified", r, e.value, e.low, e.high, e.n] for r, e in zip(radii, figures, strict=True)]
        records.append([*head, "mean radius", None, one.mean_radius(), None, None, one.images])
    columns = ("model", "domain", "certificate", "metric", "radius", "value", "low", "high", "n")
    return Table("all-models", heads, rows, Records(columns, records))


def _all_words(report: Report) -> str:
    biased = " A mean radius with + is biased low: votes stopped once every radius of the table was decided."
    seeds = " ".join(report.seed_words)
    words = "The share of samples that is right and provably stays so within a radius, and the mean radius over all."
    return f"{words}{biased if any(one.biased for one in _targets(report)) else ''} {seeds}".strip()


def _not_run(report: Report) -> list[str]:
    """Cells of published tables that there is nothing of, and claims that need more."""
    lines = [
        f"- {markdown_cell(f'{one.id}: {one.says} ({one.verdict}; {one.why})')}"
        for one in report.claims
        if not one.judged
    ]
    by_table: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in report.published:
        by_table.setdefault((row.table, row.dataset), []).append(row)
    for (table, dataset), rows in by_table.items():
        lacking = lacking_methods(rows)
        missing = [row for row in rows if row.ours is None and row.method not in lacking]
        lines += dict.fromkeys(
            f"- {table}, {dataset}, {row.method}: not run{f'; {markdown_cell(row.takes)}' if row.takes else ''}"
            for row in missing
        )
        if lacking:
            shown = len({row.method for row in rows} - lacking.keys())
            lines.append(f"- {table}, {dataset}: {markdown_cell(not_run_words(lacking, shown))}")
    return ["## Not run", "\n".join(lines)] if lines else []
