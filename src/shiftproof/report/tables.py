"""Tables of a report: set up once, written as CSV, Markdown, LaTeX and, by the page's template, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from shiftproof.report.cells import csv_text, latex_cell, markdown_cell
from shiftproof.types import Estimate

__all__ = [
    "Cell",
    "Heading",
    "Records",
    "Row",
    "Table",
    "csv_file",
    "latex_file",
    "markdown_file",
    "number_cell",
    "percent_cell",
    "points",
    "points_cell",
]


@dataclass(frozen=True)
class Cell:
    """A figure, what stands small below it, and both in one line for formats without small print."""

    text: str
    below: tuple[str, ...] = ()
    plain: str = ""
    strong: bool = False

    def __str__(self) -> str:
        return self.plain or ", ".join(part for part in (self.text, *self.below) if part)


@dataclass(frozen=True)
class Heading:
    """The head of a column; one with `tint` is shown in the colour of targets."""

    text: str
    below: tuple[str, ...] = ()
    plain: str = ""
    tint: bool = False

    def __str__(self) -> str:
        return self.plain or " ".join((self.text, *self.below))


@dataclass(frozen=True)
class Row:
    """A row of cells. `tint` is the colour of targets; `mark` a line at its side that says: guaranteed.

    Rows of one `group` stand below its name, beside which its `note` is.
    """

    cells: Sequence[Cell]
    group: str = ""
    note: str = ""
    tint: bool = False
    mark: bool = False


@dataclass(frozen=True)
class Records:
    """What a CSV file holds: one number a line, in full."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Table:
    """A table for people, and the records for CSV and JSON; without `records` these are the cells.

    `name` is the name of its files. Tables of one name share them: their records have the same columns.
    """

    kind: ClassVar[str] = "table"

    name: str
    headings: Sequence[Heading]
    rows: Sequence[Row]
    numbers: Records | None = None
    caption: str = ""

    @property
    def records(self) -> Records:
        """The records that it was given, or its cells."""
        return self.numbers or Records(*_with_body(self.cells()))

    def cells(self) -> list[list[str]]:
        """Head and rows as text, in one line each; the group is a column of its own."""
        grouped = any(row.group for row in self.rows)
        head = [*(["model"] if grouped else []), *map(str, self.headings)]
        return [head, *([*([row.group] if grouped else []), *map(str, row.cells)] for row in self.rows)]


def csv_file(tables: Sequence[Table]) -> str:
    """The records of all tables, below one head."""
    rows = [row for table in tables for row in table.records.rows]
    return csv_text([tables[0].records.columns, *rows])


def markdown_file(tables: Sequence[Table]) -> str:
    """For a README or an issue; of several tables each has its caption above it."""
    return "\n".join(_caption(table, tables, "{}\n\n", markdown_cell) + _markdown(table) for table in tables)


def latex_file(tables: Sequence[Table]) -> str:
    """Tabulars for a paper, with the rules of booktabs; of several tables each has its caption above it."""
    parts = (_caption(table, tables, "\\noindent {}\n\n", latex_cell) + _latex(table) for table in tables)
    return "% needs \\usepackage{booktabs}\n" + "\n".join(parts)


def percent_cell(e: Estimate, note: str = "", *, strong: bool = False) -> Cell:
    """A share with its interval; `note` is what a reader should know of it."""
    interval = f"{100 * e.low:.1f} to {100 * e.high:.1f}"
    return Cell(f"{e.value:.1%}", _below(interval, note), _noted(e.format(), note), strong)


def points_cell(e: Estimate, note: str = "", *, strong: bool = False) -> Cell:
    """A difference of two shares, in points, with its interval."""
    text, low, high = (points(value) for value in (e.value, e.low, e.high))
    return Cell(text, _below(f"{low} to {high}", note), _noted(e.format(points), note), strong)


def number_cell(e: Estimate) -> Cell:
    """Any other number with its interval."""
    text, low, high = (f"{value:.3g}" for value in (e.value, e.low, e.high))
    return Cell(text, (f"{low} to {high}",), f"{text} ({low} to {high})")


def points(value: float) -> str:
    """A difference of two shares in points, with its sign.

    >>> points(0.664)
    '+66.4'
    """
    return f"{100 * value:+.1f}"


def _below(*lines: str) -> tuple[str, ...]:
    return tuple(line for line in lines if line)


def _noted(figure: str, note: str) -> str:
    return f"{figure}, {note}" if note else figure


def _with_body(cells: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    return cells[0], cells[1:]


def _caption(table: Table, tables: Sequence[Table], form: str, escape: Any) -> str:
    return form.format(escape(table.caption)) if len(tables) > 1 and table.caption else ""


def _markdown(table: Table) -> str:
    head, *rows = table.cells()
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(markdown_cell(cell) for cell in line)} |\n" for line in lines)


def _latex(table: Table) -> str:
    head, *rows = [[latex_cell(cell) for cell in line] for line in table.cells()]
    body = "".join("  " + " & ".join(row) + r" \\" + "\n" for row in rows)
    # names stand on the left, figures on the right
    names = len(head) - len(table.headings) + 1
    columns = "l" * names + "r" * (len(head) - names)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n  \\toprule\n  {' & '.join(head)} \\\\\n  \\midrule\n"
        f"{body}  \\bottomrule\n\\end{{tabular}}\n"
    )
