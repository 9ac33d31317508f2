"""What a report writes: the page, tables, figures, and all numbers as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shiftproof.display.chart import Chart
from shiftproof.errors import ConformanceError, UnknownName
from shiftproof.evidence import slug
from shiftproof.execution import write_atomically
from shiftproof.report.page.render import render_page
from shiftproof.report.report import Report
from shiftproof.report.tables import Table, csv_file, latex_file, markdown_file

__all__ = ["FORMATS", "MORE_FORMATS", "write_report"]

_TABLES = {"csv": (csv_file, "csv"), "markdown": (markdown_file, "md"), "latex": (latex_file, "tex")}
_CHARTS: dict[str, tuple[Callable[[Chart], bytes], str]] = {
    "svg": (lambda chart: chart.svg().encode(), "svg"),
    "png": (Chart.png, "png"),
}
FORMATS = ("html", "csv", "markdown", "latex", "svg", "png", "json")
"""What is written unless told."""
MORE_FORMATS = ("reproduction", "junit", "card")
"""Written on request: a page beside a publication; requirements and findings for CI; robustness cards for a hub."""


def write_report(report: Report, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the asked formats below `folder`; returns the paths, the HTML page first."""
    for name in formats:
        if name not in (*FORMATS, *MORE_FORMATS):
            raise UnknownName("report format", name, (*FORMATS, *MORE_FORMATS))
    written: dict[Path, bytes] = {}
    if "html" in formats:
        written[folder / "report.html"] = render_page(report).encode()
    if "json" in formats:
        text = json.dumps(_without_nan(report.to_json()), indent=1, ensure_ascii=False)
        written[folder / "report.json"] = f"{text}\n".encode()
    for stem, tables in _tables_by_name(report).items():
        for name, (render, suffix) in _TABLES.items():
            if name in formats:
                written[folder / "tables" / f"{stem}.{suffix}"] = render(tables).encode()
    for stem, chart in _charts_by_name(report).items():
        for name, (draw, suffix) in _CHARTS.items():
            if name in formats:
                written[folder / "figures" / f"{stem}.{suffix}"] = draw(chart)
    for path, content in written.items():
        write_atomically(path, content)
    return list(written)


def _tables_by_name(report: Report) -> dict[str, list[Table]]:
    """The tables that share a file: those of one section that have one name."""
    tables: dict[str, list[Table]] = {}
    owners: dict[str, str] = {}
    for owner, section in report.sections.items():
        for table in section.tables():
            if (other := owners.setdefault(table.name, owner)) != owner:
                both = f"the sections {other!r} and {owner!r} both have a table {table.name!r}"
                raise ConformanceError(f"{both}; give one of them another name")
            if slug(table.name) != table.name:
                raise ConformanceError(f"section {owner!r}: {table.name!r} is no name for a file")
            tables.setdefault(table.name, []).append(table)
    return tables


def _charts_by_name(report: Report) -> dict[str, Chart]:
    """The charts of all sections, each of which has files of its own."""
    charts: dict[str, Chart] = {}
    owners: dict[str, str] = {}
    for owner, section in report.sections.items():
        for chart in section.charts():
            if chart.name in charts:
                both = f"the sections {owners[chart.name]!r} and {owner!r} both have a chart {chart.name!r}"
                several = f"section {owner!r} has two charts {chart.name!r}"
                raise ConformanceError(
                    f"{both if owners[chart.name] != owner else several}; give one of them another name"
                )
            if slug(chart.name) != chart.name:
                raise ConformanceError(f"section {owner!r}: {chart.name!r} is no name for a file")
            charts[chart.name], owners[chart.name] = chart, owner
    return charts


def _without_nan(value: Any) -> Any:
    """The value with None for numbers that JSON does not know."""
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
