"""Rows of a table of texts, checked one by one: what is missing, empty, not text, or no class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shiftproof.domains.index import SPLITS, column_problems
from shiftproof.domains.table_files import Records
from shiftproof.perturbations.text import fault_of

__all__ = ["TableIndex", "TableRow", "distinct_rows", "index_of_records"]

_EXAMPLES = 5


@dataclass(frozen=True)
class TableRow:
    """One text, or a pair: what it says, what it is, where it comes from."""

    id: str
    texts: tuple[str, ...]
    label: str
    domain: str
    split: str = ""
    group: str = ""


@dataclass(frozen=True)
class TableIndex:
    """The rows of a table that can be used, and what is wrong with the others."""

    path: Path
    rows: list[TableRow]
    problems: list[str] = field(default_factory=list)


class _Fault(Exception):  # noqa: N818 - never leaves this file
    """What is wrong with a row."""


def index_of_records(
    records: Records, columns: Mapping[str, str], *, keep_empty: bool, numbers: bool = False
) -> TableIndex:
    """The rows of a table; `columns` says which column is what, `numbers` whether labels are numbers to predict."""
    rows: list[TableRow] = []
    lines: list[int] = []
    faults: dict[str, list[int]] = {}
    for number, (line, values) in enumerate(records.rows, 1):
        given = {role: values.get(column) for role, column in columns.items()}
        try:
            rows.append(_row(number, given, keep_empty, numbers))
            lines.append(line)
        except _Fault as fault:
            faults.setdefault(str(fault), []).append(line)
    path, unit = records.path, records.unit
    problems = [f"{path}, {_places(unit, found)}: {fault}" for fault, found in faults.items()]
    problems += column_problems(path, [row.split for row in rows], [row.group for row in rows])
    problems += _repeated_ids(path, unit, rows, lines)
    problems += [] if numbers else _real_labels(path, unit, rows, lines)
    if not records.rows:
        problems.append(f"{path} has no rows")
    return TableIndex(path, rows, problems)


def distinct_rows(rows: list[TableRow]) -> list[TableRow]:
    """The rows without those whose id their domain has already."""
    return list({(row.domain, row.id): row for row in reversed(rows)}.values())[::-1]


def _row(number: int, given: Mapping[str, Any], keep_empty: bool, numbers: bool) -> TableRow:
    texts = tuple(_text(role, given[role]) for role in ("text", "text2") if role in given)
    if not keep_empty and not all(text.strip() for text in texts):
        raise _Fault("the text is empty; fill it in, remove the row, or keep such rows with --set data.empty=keep")
    if str(given["label"]).strip().lower() == "nan":
        raise _Fault(f"the label is NaN, which is no {'number to predict' if numbers else 'class'}")
    label, domain = _name("label", given["label"]), _name("domain", given["domain"])
    for role, value in (("label", label), ("domain", domain)):
        if not value:
            raise _Fault(f"the {role} is missing")
    if numbers:
        _check_number(label)
    split = _name("split", given.get("split")).lower()
    if split and split not in SPLITS:
        raise _Fault(f"split {split!r} should be train, validation or test")
    id_ = _name("id", given["id"]) if "id" in given else f"row-{number}"
    if not id_:
        raise _Fault("the id is missing; fill in all, or name another column with --set data.id=COLUMN")
    return TableRow(id_, texts, label, domain, SPLITS.get(split, ""), _name("group", given.get("group")))


def _text(role: str, value: Any) -> str:
    if value is None:
        raise _Fault(f"the {role} is missing")
    if not isinstance(value, str):
        raise _Fault(f"the {role} should be text, not {type(value).__name__}")
    return _encodable(role, value)


def _name(role: str, value: Any) -> str:
    """A class, domain, group, split or id: text, or a whole number; '' if there is none."""
    if isinstance(value, list | dict | bytes):
        raise _Fault(f"the {role} should be text or a number, not {type(value).__name__}")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # to many programs, whole numbers with gaps are floats, and the gaps are NaN
        return "" if math.isnan(value) else str(int(value)) if value.is_integer() else str(value)
    name = "" if value is None else _encodable(role, str(value).strip())
    if "\0" in name:
        raise _Fault(f"the {role} {name!r} holds a NUL character")
    return name


def _encodable(role: str, value: str) -> str:
    if fault := fault_of(value):
        raise _Fault(f"the {role} {fault}")
    return value


def _check_number(label: str) -> None:
    try:
        finite = math.isfinite(float(label))
    except ValueError:
        raise _Fault(f"the label {label!r} is no number") from None
    if not finite:
        raise _Fault(f"the label {label!r} is not finite, so that nothing can predict it")


def _repeated_ids(path: Path, unit: str, rows: list[TableRow], lines: list[int]) -> list[str]:
    """An id may be in two domains, which means the same thing measured twice, but not twice in one."""
    places: dict[tuple[str, str], list[int]] = {}
    for row, line in zip(rows, lines, strict=True):
        places.setdefault((row.domain, row.id), []).append(line)
    repeated = [(id_, domain, found) for (domain, id_), found in places.items() if len(found) > 1]
    if not repeated:
        return []
    id_, domain, found = repeated[0]
    return [
        f"{path}: {len(repeated)} ids are in a domain more than once, such as {id_!r} in {domain!r} "
        f"({_places(unit, found)})"
    ]


def _real_labels(path: Path, unit: str, rows: list[TableRow], lines: list[int]) -> list[str]:
    """Numbers with fractions are a measure, not classes."""
    try:
        values = [float(row.label) for row in rows]
    except ValueError:
        return []
    real = [number for number, value in enumerate(values) if not value.is_integer()]
    if not real:
        return []
    where = f"{path}, {unit} {lines[real[0]]}"
    seen = f"the label is {rows[real[0]].label}; classes are names or whole numbers, not real numbers"
    return [f"{where}: {seen} (numbers to predict: --set data.labels=numbers)"]


def _places(unit: str, lines: list[int]) -> str:
    if len(lines) == 1:
        return f"{unit} {lines[0]}"
    more = len(lines) - _EXAMPLES
    return f"{unit}s {', '.join(map(str, lines[:_EXAMPLES]))}" + (f" and {more} more" if more > 0 else "")
