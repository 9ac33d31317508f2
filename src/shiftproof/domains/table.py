"""Your own texts: a CSV, JSONL or Parquet file with columns text, label, domain[, text2][, split][, group][, id]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shiftproof.domains.domain import Domains
from shiftproof.domains.index import refuse, sorted_classes
from shiftproof.domains.registry import DOMAINS, DataSet
from shiftproof.domains.table_files import LAYOUT, read_records
from shiftproof.domains.table_rows import TableIndex, TableRow, index_of_records
from shiftproof.domains.text_rows import TextRows, text_domains
from shiftproof.errors import DataError

__all__ = ["Table", "domains_of_table"]


@DOMAINS.register("table", content="your texts: table:PATH of a CSV, JSONL or Parquet file", kind="text")
@dataclass(frozen=True)
class Table(DataSet):
    """Your own texts: a CSV, JSONL or Parquet file with a row for each.

    `text`, `label` and `domain` are columns; `text2` (the second text of a pair), `split`, `group` and `id` are those
    of that name where there are any, unless others are told. Without ids, a sample's id is the number of its row.
    `empty` says what becomes of texts without a word: refuse | keep. With labels="numbers" a model predicts the label
    (how alike two sentences are) in place of choosing a class.
    """

    path: str
    text: str = "text"
    label: str = "label"
    domain: str = "domain"
    text2: str | None = None
    split: str | None = None
    group: str | None = None
    id: str | None = None
    empty: Literal["refuse", "keep"] = "refuse"
    labels: Literal["classes", "numbers"] = "classes"

    @property
    def source(self) -> str:
        """As it is typed."""
        return f"table:{self.path}"

    def index(self) -> TableIndex:
        """Read the file; what is wrong with single rows is told, and they are left out."""
        records = read_records(Path(self.path))
        columns, numbers = self._columns(records.columns), self.labels == "numbers"
        return index_of_records(records, columns, keep_empty=self.empty == "keep", numbers=numbers)

    def load(self) -> Domains:
        """Read the file, all of which must be right."""
        index = self.index()
        refuse(index.problems)
        domains = domains_of_table(self.source, index.rows, numbers=self.labels == "numbers")
        if len(domains.classes) < 2 and not domains.is_regression:
            raise DataError(
                f"{self.path}: all {len(index.rows)} rows have the label {domains.classes[0]!r}; "
                "a classifier needs two classes or more"
            )
        return domains

    def _columns(self, present: list[str]) -> dict[str, str]:
        """Which column is what, of those that are there."""
        told = {"text": self.text, "label": self.label, "domain": self.domain}
        perhaps = {"text2": self.text2, "split": self.split, "group": self.group, "id": self.id}
        told |= {role: column for role, column in perhaps.items() if column is not None}
        chosen = {role: column.strip().lower() for role, column in told.items()}
        for role, column in chosen.items():
            if column not in present:
                name = "" if role == column else f" (the {role})"
                raise DataError(
                    f"{self.path} lacks the column {column!r}{name}; it has {', '.join(present) or 'none'}. "
                    f"Expected: {LAYOUT}."
                )
        free = [role for role in perhaps if role not in chosen and role in present and role not in chosen.values()]
        return chosen | {role: role for role in free}


def domains_of_table(name: str, rows: Sequence[TableRow], *, numbers: bool = False) -> Domains:
    """Domains in alphabetical order; classes too, or by size if they are whole numbers; none with `numbers`."""
    classes = [] if numbers else sorted_classes(row.label for row in rows)
    number = (
        {row.label: float(row.label) for row in rows}
        if numbers
        else dict(zip(classes, range(len(classes)), strict=True))
    )
    by_domain: dict[str, list[TableRow]] = {}
    for row in rows:
        by_domain.setdefault(row.domain, []).append(row)
    return text_domains(
        name,
        classes,
        {
            domain: TextRows(
                [row.texts for row in members],
                [number[row.label] for row in members],
                [row.id for row in members],
                [row.group for row in members] if any(row.group for row in members) else None,
                [row.split for row in members] if any(row.split for row in members) else None,
            )
            for domain, members in sorted(by_domain.items())
        },
    )
