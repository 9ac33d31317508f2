"""One table of all claims whose verdicts lie below a folder of pages: what was published, what was found."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

__all__ = ["BEGIN", "END", "OVER_TARGETS", "claims_overview", "with_overview"]

BEGIN = "<!-- claims: made of NAME/claims.csv -->"
END = "<!-- end of claims -->"
"""What stands around the table in a README; without it none is written."""
OVER_TARGETS = "mean over targets"
"""In the column `target` of claims that were judged over several targets, what is about all of them."""
_SHOWN = 2
"""Comparisons of a claim that are shown, at most."""
_DECIDING = ("contradicted", "not measured", "undecided", "supported")
_NOT_SHARES = ("acr",)
"""Metrics that are no part of 1."""


def with_overview(text: str, folder: Path) -> str:
    """A README with the table of claims of all pages beside it, where it asks for one."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{claims_overview(folder)}\n{END}{after}" if begin and end else text


def claims_overview(folder: Path) -> str:
    """All claims of the pages in a folder as a table in Markdown, in the order of their names.

    Of a claim about several comparisons, those that decide it are shown: ours, and the published figures.
    """
    claims = [
        (_order(rows[0]["claim"]), path.parent.name, rows)
        for path in sorted(folder.glob("*/claims.csv"))
        for rows in _claims_in(path)
    ]
    lines = ["| claim | what it says | published | ours | verdict | page |", "| --- | --- | --- | --- | --- | --- |"]
    for _, page, rows in sorted(claims, key=lambda one: (one[0], one[1])):
        first, shown = rows[0], _deciding(rows)
        more = f"; of {len(rows)} comparisons" if len(rows) > len(shown) else ""
        ours = _joined(_figures(row, "this", "that") for row in shown)
        published = _joined(map(_published, shown))
        # why a claim can't be tested here
        told = ours + more if ours else first["why"]
        cells = (first["claim"], first["says"], published or "-", told, first["verdict"], f"[{page}]({page}.md)")
        lines.append("| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _claims_in(path: Path) -> Iterator[list[dict[str, str]]]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.get("target", OVER_TARGETS) == OVER_TARGETS]
    for _, same in groupby(rows, key=lambda row: row["claim"]):
        yield list(same)


def _deciding(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """The comparisons that are farthest from being supported, in their own order."""
    rank = {name: place for place, name in enumerate(_DECIDING)}
    chosen = sorted(rows, key=lambda row: rank.get(row["part verdict"], len(rank)))[:_SHOWN]
    return [row for row in rows if any(row is one for one in chosen)]


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, parts)))


def _published(row: Mapping[str, str]) -> str:
    return _figures(row, "published this", "published that") if row["published this"] else ""


def _figures(row: Mapping[str, str], this: str, that: str) -> str:
    if not row[this]:
        return ""
    share = not row["sentence"].startswith(_NOT_SHARES)
    numbers = [float(row[key]) for key in (this, that) if row[key]]
    written = " against ".join(f"{100 * one:.1f} %" if share else f"{one:.3f}" for one in numbers)
    return written if share else f"mean radius {written}"


def _order(name: str) -> list[tuple[int, int, str]]:
    """By the numbers in a name: K0.9 before K0.10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|\D+", name)]
