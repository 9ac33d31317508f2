"""Your own images: root/domain/class/image, or a CSV manifest with columns path, label, domain[, split][, group]."""

from __future__ import annotations

import csv
import posixpath
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.images import Directory, FileInputs, Files, dimensions, is_image
from shiftproof.domains.registry import DOMAINS
from shiftproof.errors import DataError, DataNotFound
from shiftproof.types import Positive

__all__ = ["Folder", "Index", "domains_of_files", "index_of_tree"]

LAYOUT = "root/domain/class/image.png, or a CSV file with columns path,label,domain and perhaps split,group"
SPLITS = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}


@dataclass(frozen=True)
class Row:
    """One image: where it is, what it is, where it comes from."""

    path: str
    label: str
    domain: str
    split: str = ""
    group: str = ""


@dataclass(frozen=True)
class Index:
    """All images of a data set before any is opened, and what is wrong with the layout."""

    files: Files
    rows: list[Row]
    problems: list[str] = field(default_factory=list)
    ignored: int = 0


@DOMAINS.register("folder", content="your images: folder:PATH")
@dataclass(frozen=True)
class Folder:
    """Your own images: root/domain/class/image, or a CSV manifest.

    `size` (pixels, or height and width) is needed when images differ in size; `channels` is 1 or 3.
    """

    path: str
    size: Positive | tuple[Positive, Positive] | None = None
    channels: Literal[1, 3] | None = None

    files = ()

    def index(self) -> Index:
        """Find the images without opening them."""
        path = Path(self.path)
        if path.is_dir():
            return index_of_tree(Directory(path))
        if path.is_file() and path.suffix.lower() == ".csv":
            return _index_of_manifest(path)
        state = "is not a folder or a .csv file" if path.exists() else "does not exist"
        raise DataNotFound(f"{path} {state}. Expected: {LAYOUT}.")

    def load(self) -> Domains:
        """Find the images; decode them when they are asked for."""
        return domains_of_files(f"folder:{self.path}", self.index(), self.size, self.channels)


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


def domains_of_files(
    name: str, index: Index, size: int | tuple[int, int] | None = None, channels: int | None = None
) -> Domains:
    """Domains whose images are decoded lazily; one label space, classes in alphabetical order."""
    if index.problems:
        more = f" (and {len(index.problems) - 1} more; see 'shiftproof validate')" if len(index.problems) > 1 else ""
        raise DataError(index.problems[0] + more)
    shape = _shape(index, size, channels)
    classes = tuple(sorted({row.label for row in index.rows}))
    number = {label: i for i, label in enumerate(classes)}
    by_domain: dict[str, list[Row]] = {}
    for row in index.rows:
        by_domain.setdefault(row.domain, []).append(row)
    domains = []
    for domain, rows in sorted(by_domain.items()):
        inputs = FileInputs(index.files, [row.path for row in rows], shape)
        domains.append(
            Domain(
                domain,
                classes,
                inputs,
                np.array([number[row.label] for row in rows], np.int64),
                np.array([row.path for row in rows], object),
                np.array([row.group for row in rows], object) if any(row.group for row in rows) else None,
                np.array([row.split for row in rows], object) if any(row.split for row in rows) else None,
            )
        )
    return Domains(name, domains)


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


def _index_of_manifest(path: Path) -> Index:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *lines = [*csv.reader(file, skipinitialspace=True)] or [[]]
            columns = [name.strip().lower() for name in header]
            records = [dict(zip(columns, line, strict=False)) for line in lines]
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
    for column in ("split", "group"):
        filled = sum(bool(getattr(row, column)) for row in rows)
        if 0 < filled < len(rows):
            problems.append(f"{path}: {len(rows) - filled} rows have no {column} while others do; fill in all or none")
    problems += _torn_groups(path, rows)
    repeated = [name for name, times in Counter(row.path for row in rows).items() if times > 1]
    if repeated:
        problems.append(f"{path} lists {len(repeated)} files more than once, such as {repeated[0]}")
    if not records:
        problems.append(f"{path} lists no image")
    return Index(files, rows, problems)


def _torn_groups(path: Path, rows: list[Row]) -> list[str]:
    """Groups that the split column puts on both sides of training: their test rows would be no test."""
    splits: dict[str, set[str]] = {}
    for row in rows:
        if row.group and row.split:
            splits.setdefault(row.group, set()).add(row.split)
    torn = sorted(group for group, found in splits.items() if len(found) > 1)
    if not torn:
        return []
    return [f"{path}: {len(torn)} groups are in more than one split, such as {torn[0]}; a group belongs to one"]


def _shape(index: Index, size: int | tuple[int, int] | None, channels: int | None) -> tuple[int, int, int]:
    """The shape that all images are brought to: as told, else the one size that all have, in colour if any is."""
    if size is not None:
        height, width = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
        if channels is not None:
            return channels, height, width
    found = dimensions(index.files, [row.path for row in index.rows])
    if not found:
        raise DataError(f"none of the images of {index.files.root} can be read")
    depth = channels or max(shape[0] for shape in found)
    if size is not None:
        return depth, height, width
    sizes = sorted({shape[1:] for shape in found})
    if len(sizes) > 1:
        (h, w), (last_h, last_w) = sizes[0], sizes[-1]
        raise DataError(
            f"images of {index.files.root} differ in size (from {w}x{h} to {last_w}x{last_h}); "
            "state one to resize to: size=64 in Python, --set data.size=64 on the command line"
        )
    return depth, *sizes[0]
