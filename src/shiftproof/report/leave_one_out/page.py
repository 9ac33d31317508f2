"""A page of a leave-one-out for the documents of a project: verdicts, tables and figures as Markdown and SVG."""

from __future__ import annotations

from shiftproof.report.leave_one_out.report import LeaveOneOutReport
from shiftproof.report.section import Section
from shiftproof.report.tables import Table, csv_file, markdown_file

__all__ = ["leave_one_out_page"]

_CHAPTERS = ("doubts", "claims", "published", "accuracy", "matrix", "certified")
"""Sections that stand on the page, with their words, tables and figures."""
_IN_FILES_ALONE = ("how-far",)
"""Tables that only stand in their files: of distances, the page has those of sources and targets."""


def leave_one_out_page(report: LeaveOneOutReport, name: str, command: str, remarks: str = "") -> dict[str, bytes]:
    """The page, its tables as CSV and its figures as SVG, by path: NAME.md, and what it shows below NAME/.

    Args:
        command: The one command that makes all of it again.
        remarks: What differs from the publication, and why, in Markdown.
    """
    sections = [report.sections[key] for key in (*_CHAPTERS, "how-far") if key in report.sections]
    parts = [
        f"# {report.title}",
        *([report.about] if report.about else []),
        f"```sh\n{command}\n```",
        *(text for section in sections for text in _chapter(section, name)),
        *(["## What differs, and why", remarks.strip()] if remarks.strip() else []),
        "## How it was computed",
        "\n".join(f"- {key}: {value}" for key, value in report.facts.items()),
    ]
    files = {f"{name}.md": "\n\n".join(parts).encode() + b"\n"}
    files |= {f"{name}/{chart.name}.svg": chart.svg().encode() for section in sections for chart in section.charts()}
    by_name: dict[str, list[Table]] = {}
    for table in (table for section in sections for table in section.tables()):
        by_name.setdefault(table.name, []).append(table)
    return files | {f"{name}/{key}.csv": csv_file(some).encode() for key, some in by_name.items()}


def _chapter(section: Section, name: str) -> list[str]:
    """A section as Markdown: its heading, its words, its tables, its figures."""
    charts = [f"![{chart.title or chart.words or chart.name}]({name}/{chart.name}.svg)" for chart in section.charts()]
    tables = [one for one in section.tables() if one.name not in _IN_FILES_ALONE]
    return [
        f"## {section.title}",
        " ".join(section.words()),
        *([markdown_file(tables).strip()] if tables else []),
        *charts,
    ]
