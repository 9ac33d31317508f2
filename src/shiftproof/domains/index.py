"""Find the images of a data set without opening them: from a tree of folders, or from a CSV manifest."""

from __future__ import annotations

import csv
import posixpath
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from shiftproof.domains.images import Directory, Files, is_image
from shiftproof.errors import DataError

__all__ = [
    "LAYOUT",
    "SPLITS",
    "Index",
    "Row",
    "column_problems",
    "index_of_manifest",
    "index_of_tree",
    "refuse",
    "sorted_classes",
    "torn_groups",
]

LAYOUT = "root/domain/class/image.png, or a CSV file with columns path,label,domain and perhaps split,group"
SPLITS = {
    "train": "train",
    **dict.fromkeys(("val", "valid", "validation", "dev"), "validation"),
    "test": "test",
}
"""Names of splits, and what they mean."""


@dataclass(frozen=True)
class Row:
    """One image: where it is, what it is, where it comes from."""

    path: str
    label: str
    domain: str
    split: str = ""
    group: str = ""


class Marked(Protocol):
    """A row of any table that may say which split and which group it belongs to."""

    @property
    def split(self) -> str: ...

    @property
    def group(self) -> str: ...


@dataclass(frozen=True)
class Index:
    """All images of a data set before any is opened, and what is wrong with the layout."""

    files: Files
    rows: list[Row]
    problems: list[str] = field(default_factory=list)
    ignored: int = 0


def index_of_tree(files: Files) -> Index:
    """Images at root/domain/class/..., classes and domains named after their folders."""
    rows, ignored, misplaced = [], 0, []
    for name in files.names():
        parts = name.split("/")
        if not is_image(name):
            ignored += 1
        elif len(parts) < 3:
            misplaced.append(name)
        else:
            rows.append(Row(name, parts[1], parts[0]))
    problems = []
    if misplaced:
        problems.append(
            f"{len(misplaced)} images in {files.root} are not at domain/class/image, such as {misplaced[0]}. "
            f"Expected: {LAYOUT}."
        )
    problems += [f"the folder {name} of {files.root} holds no image" for name in _empty_folders(files, rows)]
    if not rows and not misplaced:
        problems.insert(0, f"{files.root} holds no image. Expected: {LAYOUT}.")
    return Index(files, rows, problems, ignored)


def index_of_manifest(path: Path) -> Index:
    """Images that a CSV file lists, with paths relative to it."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *lines = [*csv.reader(file, skipinitialspace=True)] or [[]]
            columns = [name.strip().lower() for name in header]
            records = [dict(zip(columns, map(str.strip, line), strict=False)) for line in lines]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a readable CSV file: {error}") from error
    lacking = [column for column in ("path", "label", "domain") if column not in columns]
    if lacking:
        raise DataError(
            f"{path} lacks the column {lacking[0]!r}; it has {', '.join(columns) or 'none'}. Expected: {LAYOUT}."
        )
    files = Directory(path.parent)
    rows, problems = [], []
    for line, record in enumerate(records, 2):
        if not any(record.values()):
            continue
        split = (record.get("split") or "").strip().lower()
        if split and split not in SPLITS:
            problems.append(f"{path}, line {line}: split {split!r} should be train, validation or test")
        elif not all(record.get(column) for column in ("path", "label", "domain")):
            problems.append(f"{path}, line {line}: path, label and domain must all be filled in")
        elif not (files.root / record["path"]).is_file():
            problems.append(f"{path}, line {line}: there is no file {files.root / record['path']}")
        else:
            group = (record.get("group") or "").strip()
            name = posixpath.normpath(record["path"])
            rows.append(Row(name, record["label"], record["domain"], SPLITS.get(split, ""), group))
    problems += column_problems(path, rows)
    repeated = [name for name, times in Counter(row.path for row in rows).items() if times > 1]
    if repeated:
        problems.append(f"{path} lists {len(repeated)} files more than once, such as {repeated[0]}")
    if not rows and not problems:
        problems.append(f"{path} lists no image")
    return Index(files, rows, problems)


def _empty_folders(files: Files, rows: list[Row]) -> list[str]:
    """Domains and classes without an image; an archive has no empty folders."""
    if not isinstance(files, Directory):
        return []
    filled = {row.domain for row in rows} | {f"{row.domain}/{row.label}" for row in rows}
    domains = [path for path in sorted(files.root.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    empty = [domain.name for domain in domains if domain.name not in filled]
    for domain in domains:
        if domain.name in filled:
            names = [f"{domain.name}/{path.name}" for path in sorted(domain.iterdir()) if path.is_dir()]
            empty += [name for name in names if name not in filled and "/." not in name]
    return empty


def column_problems(path: Path, rows: Sequence[Marked]) -> list[str]:
    """Columns that are filled in for some rows only, and groups that are torn apart."""
    problems = []
    for column in ("split", "group"):
        filled = sum(bool(getattr(row, column)) for row in rows)
        if 0 < filled < len(rows):
            problems.append(f"{path}: {len(rows) - filled} rows have no {column} while others do; fill in all or none")
    return problems + torn_groups(path, rows)


def torn_groups(path: Path, rows: Sequence[Marked]) -> list[str]:
    """Groups that the split column puts on both sides of training: their test rows would be no test."""
    splits: dict[str, set[str]] = {}
    for row in rows:
        if row.group and row.split:
            splits.setdefault(row.group, set()).add(row.split)
    torn = sorted(group for group, found in splits.items() if len(found) > 1)
    if not torn:
        return []
    return [f"{path}: {len(torn)} groups are in more than one split, such as {torn[0]}; a group belongs to one"]


def refuse(problems: Sequence[str]) -> None:
    """A `DataError` with the first problem, if there is one, that says how many more there are."""
    if problems:
        more = f" (and {len(problems) - 1} more; see 'shiftproof validate')" if len(problems) > 1 else ""
        raise DataError(problems[0] + more)


def sorted_classes(labels: Iterable[str]) -> tuple[str, ...]:
    """Classes of a column that does not say: whole numbers by size, else in alphabetical order."""
    found = set(labels)
    whole = all(name.removeprefix("-").isdecimal() for name in found)
    return tuple(sorted(found, key=int) if whole else sorted(found))
