"""Texts of users (names of models, domains, classes) in cells of CSV, Markdown and LaTeX, where they stay texts."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import Any

__all__ = ["csv_text", "latex_cell", "markdown_cell", "markdown_text"]

_FORMULA_STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What spreadsheets take for the start of a formula, full-width forms included."""
_NUMBER = re.compile(r"[+-](\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_MARKDOWN = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {char: f"&#{ord(char)};" for char in "|`[]\\"})
_PROSE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {char: f"&#{ord(char)};" for char in "*_`\\"})
_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # behind the end of a row they would be the distance to the next one, or forbid a page to end there
    "[": "{[}",
    "*": "{*}",
} | {char: f"\\{char}" for char in "%&_#${}"}


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV, numbers in full; a text that a spreadsheet would compute gets an apostrophe in front.

    >>> csv_text([["model", "gap"], ["=1+1", -0.5]])
    "model,gap\\n'=1+1,-0.5\\n"
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([_csv_cell(value) for value in row] for row in rows)
    return buffer.getvalue()


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(_FORMULA_STARTS) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def markdown_cell(text: str) -> str:
    """A text as a cell of a Markdown table: no HTML, no link, no further cell or row.

    >>> markdown_cell("<b>|")
    '&lt;b&gt;&#124;'
    """
    return _one_line(text).translate(_MARKDOWN)


def markdown_text(text: str) -> str:
    """A text in a paragraph of Markdown: no HTML, no link, no print that it does not have.

    Brackets that make no link stay as they are, so that a sentence can be found by its words.

    >>> markdown_text("values in [0, 1], *not* [here](there)")
    'values in [0, 1], &#42;not&#42; [here]&#40;there)'
    """
    return _one_line(text).translate(_PROSE).replace("](", "]&#40;")


def latex_cell(text: str) -> str:
    """A text as a cell of a LaTeX table.

    >>> latex_cell("50 %")
    '50 \\\\%'
    """
    return "".join(_LATEX.get(char, char) for char in _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
