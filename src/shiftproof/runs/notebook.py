"""A run in a notebook: the verdict, figures of every model, findings, and where the report is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from shiftproof.display import badge, lines, panel, small, table
from shiftproof.report import Report
from shiftproof.report.overview import overview_of
from shiftproof.report.tables import Table

__all__ = ["run_html"]

ROWS, FINDINGS = 12, 8
"""Rows of figures and findings that are shown, at most; the report has all."""


def run_html(report: Report, folder: Path) -> str:
    """A box for the cell of a notebook."""
    page = folder / "report.html"
    where = f"Report: {page}" if page.is_file() else "Report: not written yet; run.report() writes it"
    # of many models a table says it better than a paragraph each
    verdict = report.verdict if len(report.models) <= 2 else []
    told = [badge(one.level, f"{one.message}.") for one in report.findings[:FINDINGS]]
    more = len(report.findings) - len(told)
    figures = _figures(report)
    left = 0 if figures is None else len(figures.rows) - ROWS
    words = "Small figures are 95 % intervals" if figures is not None else ""
    words += f"; {left} more rows are in the report" if left > 0 else ""
    return str(
        panel(
            report.title,
            lines(verdict),
            _table(figures) if figures is not None else "",
            small(f"{words}.") if words else "",
            lines([*told, *([small(f"and {more} more findings")] if more > 0 else [])]),
            small(where),
        )
    )


def _figures(report: Report) -> Table | None:
    """All measures of one or two models; of many, or of numbers, a line each."""
    if report.measures.several and len(report.models) <= 2:
        return report.measures.to_table({})
    overview = overview_of(report)
    return overview.to_table() if overview.rows else None


def _table(figures: Table) -> str:
    """The first rows, with intervals below figures; the model in front of them where there are several."""
    several = len({row.group for row in figures.rows}) > 1
    head = [*(["model"] if several else []), *(_two_lines(one.text, one.below) for one in figures.headings)]
    rows = [
        [*([row.group] if several else []), *(_two_lines(cell.text, cell.below) for cell in row.cells)]
        for row in figures.rows[:ROWS]
    ]
    return table(head, rows, names=1 + several)


def _two_lines(text: str, below: Sequence[str]) -> str:
    return Markup("{}<br>{}").format(text, small(below[0])) if below and below[0] else text
