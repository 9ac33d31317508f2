"""Lines of results for people: labels with sentences beside them, and tables that fit the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

import typer

from shiftproof.cli.show import console

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from shiftproof.report.tables import Cell, Table

__all__ = ["opening_command", "show_compact", "show_report_path", "tell", "tell_command"]

LABEL = 11
"""Characters of a label: those of the longest, and a space."""
NAME = 14
"""Characters that the first column of a table has at least, if its names are that long."""


def tell(label: str, text: str, style: str = "") -> None:
    """A sentence with a label before it; on a terminal further lines stand below the sentence, a log has one."""
    from rich.text import Text

    out, head = console(), f"{label:{LABEL}}"
    lines = [text]
    if out.is_terminal:
        lines = textwrap.wrap(text, max(20, out.width - LABEL), break_on_hyphens=False) or [""]
    for place, line in enumerate(lines):
        before = head if place == 0 else " " * LABEL
        # a word that is longer than the line, such as a path, is not broken
        out.print(Text.assemble((before, style), line), soft_wrap=True)


def tell_command(label: str, command: str, why: str) -> None:
    """A command that can be copied, never broken, and what it does: behind it where there is room, else before it."""
    line, out = f"{label:{LABEL}}{command}  ({why})", console()
    if not out.is_terminal or len(line) <= out.width:
        typer.echo(line)
    else:
        tell(label, f"{why}:")
        typer.echo(f"{'':{LABEL}}{command}")


def show_report_path(path: Path) -> None:
    """Where the report is, and on a terminal with a screen how to open it, in one line that can be copied."""
    line, command = f"{'report':{LABEL}}{path}", opening_command()
    hint = f"  (open it with: {command} {shlex.quote(str(path))})" if command else ""
    fits = len(line + hint) <= shutil.get_terminal_size().columns
    typer.echo(line + hint if fits else line)


def opening_command() -> str:
    """The program that opens a page on this machine; nothing in a log, over SSH, or without a screen."""
    if not sys.stdout.isatty() or os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"):
        return ""
    if sys.platform == "darwin":
        return "open"
    if sys.platform == "win32":
        return "start"
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return "xdg-open" if screen and shutil.which("xdg-open") else ""


def show_compact(table: Table) -> None:
    """A table with one line a row: with intervals as far as they fit, else without, else one figure a line.

    Notes below figures (whether samples were trained on, which certificate it is) get a number and stand below.
    """
    out = console()
    notes = list(dict.fromkeys(note for row in table.rows for cell in row.cells for note in cell.below[1:]))
    width = out.width if out.is_terminal else sys.maxsize
    columns = range(len(table.headings))
    tinted = {place for place in columns if table.headings[place].tint}
    # a log is as wide as it needs to be; that every gap has its interval would still be too much
    levels = [set(columns), tinted, set[int]()] if out.is_terminal else [tinted or set(columns)]
    for level in levels:
        lines = _grid(table, level, notes, width)
        if lines:
            break
    else:
        lines = list(_stacked(table, notes, width))
    for line in lines:
        typer.echo(line.rstrip())
    for number, note in enumerate(notes, 1):
        typer.echo(f"[{number}] {note}")


def _figure(cell: Cell, notes: Sequence[str], *, interval: bool) -> str:
    """A cell in one line: 15.1% (11.7-19.0) [1]."""
    within = cell.below[0] if cell.below else ""
    # a range of signed numbers would read as a difference
    within = within if "+" in within or "-" in within else within.replace(" to ", "-")
    marks = "".join(f" [{notes.index(note) + 1}]" for note in cell.below[1:])
    return f"{cell.text}{f' ({within})' if within and interval else ''}{marks}"


def _grid(table: Table, intervals: set[int], notes: Sequence[str], width: int) -> list[str]:
    """The lines of a table that is no wider than `width`; none if there is no such table."""
    cells = [
        [_figure(cell, notes, interval=place in intervals) for place, cell in enumerate(row.cells)]
        for row in table.rows
    ]
    figures = [list(column) for column in zip(*cells, strict=True)]
    heads, widths = [], []
    for heading, column in zip(table.headings[1:], figures[1:], strict=True):
        least = max(len(text) for text in [*column, *" ".join([heading.text, *heading.below]).split()])
        heads.append([part for text in (heading.text, *heading.below) for part in textwrap.wrap(text, least)])
        widths.append(least)
    names, first = figures[0], table.headings[0]
    longest = max(map(len, [*names, first.text, *first.below]))
    for gap in (2, 1):
        left = width - sum(widths) - gap * len(widths)
        if left >= min(longest, NAME):
            break
    else:
        return []
    name_width, space = min(longest, left), " " * gap
    heads.insert(0, [part for text in (first.text, *first.below) for part in textwrap.wrap(text, name_width)])
    lines = []
    for depth in range(max(map(len, heads))):
        words = [head[depth] if depth < len(head) else "" for head in heads]
        lines.append(_line(words, [name_width, *widths], space))
    lines.append("-" * (name_width + sum(widths) + gap * len(widths)))
    for name, (_, *figures_of_row) in zip(names, cells, strict=True):
        *above, last = textwrap.wrap(name, name_width) or [""]
        lines += above
        lines.append(_line([last, *figures_of_row], [name_width, *widths], space))
    return lines


def _line(words: Sequence[str], widths: Sequence[int], space: str) -> str:
    name, *others = words
    return space.join(
        [f"{name:{widths[0]}}", *(f"{word:>{size}}" for word, size in zip(others, widths[1:], strict=True))]
    )


def _stacked(table: Table, notes: Sequence[str], width: int) -> Iterator[str]:
    """A block for each row, one figure a line, what is lost behind it; for terminals that no table fits."""
    first, *headings = table.headings
    yield str(first)
    for row in table.rows:
        yield from textwrap.wrap(row.cells[0].text, width)
        pairs = list(zip(headings, row.cells[1:], strict=True))
        for place, (heading, cell) in enumerate(pairs):
            if heading.text == "lost":
                continue
            behind = pairs[place + 1][1] if place + 1 < len(pairs) and pairs[place + 1][0].text == "lost" else None
            for interval in (True, False):
                lost = "" if behind is None else f", lost {_figure(behind, notes, interval=False)}"
                line = f"  {' '.join([heading.text, *heading.below])}: {_figure(cell, notes, interval=interval)}{lost}"
                if len(line) <= width:
                    break
            yield from textwrap.wrap(line, width, initial_indent="", subsequent_indent="    ")
