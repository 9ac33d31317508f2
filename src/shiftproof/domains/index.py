"""Find the images of a data set without opening them: from a tree of folders, or from a CSV manifest."""

from __future__ import annotations

import csv
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.decoding import is_image
from shiftproof.domains.files import Directory, Files
from shiftproof.errors import DataError
from shiftproof.types import IntArray

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
Names = NDArray[np.object_]


@dataclass(frozen=True)
class Row:
    """One image: where it is, what it is, where it comes from."""

    path: str
    label: str
    domain: str
    split: str = ""
    group: str = ""


@dataclass(frozen=True, eq=False)
class Index:
    """All images of a data set before any is opened, and what is wrong with the layout.

    Columns have a text for each image; of a million images, every class and domain is in memory once.

    Args:
        states: What changes with the content of each file (N x 4), where files are on a disk.
        source: The folder, archive or list that names them, if what is read of them is worth keeping.
    """

    files: Files
    paths: Names
    labels: Names
    domains: Names
    splits: Names
    groups: Names
    problems: Sequence[str] = ()
    ignored: int = 0
    states: IntArray | None = None
    source: Path | None = None

    @classmethod
    def of(cls, files: Files, rows: Iterable[tuple[str, str, str, str, str]], **known: Any) -> Index:
        """From path, label, domain, split and group of every image, the last two empty where there is none."""
        paths, labels, domains, splits, groups = (list[str]() for _ in range(5))
        same: dict[str, str] = {}
        for path, label, domain, split, group in rows:
            paths.append(path)
            labels.append(same.setdefault(label, label))
            domains.append(same.setdefault(domain, domain))
            splits.append(same.setdefault(split, split))
            groups.append(same.setdefault(group, group))
        columns = (_objects(paths), _objects(labels), _objects(domains), _objects(splits), _objects(groups))
        return cls(files, *columns, **known)

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def rows(self) -> list[Row]:
        """Image by image, for data that is not large."""
        columns = (self.paths, self.labels, self.domains, self.splits, self.groups)
        return [Row(*texts) for texts in zip(*columns, strict=True)]


def index_of_tree(files: Files) -> Index:
    """Images at root/domain/class/..., classes and domains named after their folders."""
    listing = files.listing()
    chosen, ignored, misplaced = list[int](), 0, list[str]()
    paths, labels, domains = list[str](), list[str](), list[str]()
    places: dict[str, tuple[str, ...]] = {}
    for place, name in enumerate(listing.names):
        folder = name.rpartition("/")[0]
        # of a million images, folders are few
        parts = places.get(folder) or places.setdefault(folder, tuple(folder.split("/", 2)))
        if not is_image(name):
            ignored += 1
        elif len(parts) < 2:
            misplaced.append(name)
        else:
            chosen.append(place)
            paths.append(name)
            labels.append(parts[1])
            domains.append(parts[0])
    problems = []
    if misplaced:
        problems.append(
            f"{len(misplaced)} images in {files.root} are not at domain/class/image, such as {misplaced[0]}. "
            f"Expected: {LAYOUT}."
        )
    states = None if listing.states is None else listing.states[chosen]
    unknown = _objects([""] * len(paths))
    columns = (_objects(paths), _objects(labels), _objects(domains), unknown, unknown)
    index = Index(files, *columns, ignored=ignored, states=states, source=files.root)
    problems += [f"the folder {name} of {files.root} holds no image" for name in _empty_folders(index)]
    if not chosen and not misplaced:
        problems.insert(0, f"{files.root} holds no image. Expected: {LAYOUT}.")
    return replace(index, problems=problems)


def index_of_manifest(path: Path) -> Index:
    """Images that a CSV file lists, with paths relative to it."""
    files = Directory(path.parent)
    rows, lines, problems = list[tuple[str, str, str, str, str]](), list[int](), dict[int, str]()
    same: dict[str, str] = {}
    for line, record in _records(path):
        split = (record.get("split") or "").strip().lower()
        if split and split not in SPLITS:
            problems[line] = f"{path}, line {line}: split {split!r} should be train, validation or test"
        elif not all(record.get(column) for column in ("path", "label", "domain")):
            problems[line] = f"{path}, line {line}: path, label and domain must all be filled in"
        else:
            texts = (record["label"], record["domain"], SPLITS.get(split, ""), (record.get("group") or "").strip())
            label, domain, part, group = (same.setdefault(text, text) for text in texts)
            rows.append((posixpath.normpath(record["path"]), label, domain, part, group))
            lines.append(line)
    states = files.states([name for name, *_ in rows])
    there = states[:, 0] >= 0
    for place in np.flatnonzero(~there).tolist():
        problems[lines[place]] = f"{path}, line {lines[place]}: there is no file {files.root / rows[place][0]}"
    index = Index.of(files, (rows[place] for place in np.flatnonzero(there)), states=states[there], source=path)
    found = [problems[line] for line in sorted(problems)]
    found += column_problems(path, index.splits, index.groups)
    repeated = [name for name, times in Counter(index.paths.tolist()).items() if times > 1]
    if repeated:
        found.append(f"{path} lists {len(repeated)} files more than once, such as {repeated[0]}")
    if not len(index) and not found:
        found.append(f"{path} lists no image")
    return replace(index, problems=found)


def _records(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file by the names of its columns, with the number of each; empty ones are passed over."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file, skipinitialspace=True)
            columns = [name.strip().lower() for name in next(lines, [])]
            lacking = [column for column in ("path", "label", "domain") if column not in columns]
            if lacking:
                has = ", ".join(columns) or "none"
                raise DataError(f"{path} lacks the column {lacking[0]!r}; it has {has}. Expected: {LAYOUT}.")
            for number, line in enumerate(lines, 2):
                record = dict(zip(columns, map(str.strip, line), strict=False))
                if any(record.values()):
                    yield number, record
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a readable CSV file: {error}") from error


def _empty_folders(index: Index) -> list[str]:
    """Domains and classes without an image; an archive has no empty folders."""
    if not isinstance(index.files, Directory):
        return []
    root, pairs = index.files.root, set(zip(index.domains, index.labels, strict=True))
    filled = {domain for domain, _ in pairs} | {f"{domain}/{label}" for domain, label in pairs}
    domains = [path for path in sorted(root.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    empty = [domain.name for domain in domains if domain.name not in filled]
    for domain in domains:
        if domain.name in filled:
            names = [f"{domain.name}/{path.name}" for path in sorted(domain.iterdir()) if path.is_dir()]
            empty += [name for name in names if name not in filled and "/." not in name]
    return empty


def column_problems(path: Path, splits: Iterable[str], groups: Iterable[str]) -> list[str]:
    """Columns that are filled in for some rows only, and groups that are torn apart."""
    problems, columns = [], {"split": list(splits), "group": list(groups)}
    for column, texts in columns.items():
        empty = sum(not text for text in texts)
        if 0 < empty < len(texts):
            problems.append(f"{path}: {empty} rows have no {column} while others do; fill in all or none")
    return problems + torn_groups(path, *columns.values())


def torn_groups(path: Path, splits: Iterable[str], groups: Iterable[str]) -> list[str]:
    """Groups that the split column puts on both sides of training: their test rows would be no test."""
    pairs = {(group, split) for split, group in zip(splits, groups, strict=True) if group and split}
    torn = sorted(group for group, times in Counter(group for group, _ in pairs).items() if times > 1)
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


def _objects(texts: Sequence[str]) -> Names:
    column = np.empty(len(texts), object)
    column[:] = texts
    return column
