"""CAMELYON17 in WILDS' layout: patches of lymph nodes from five hospitals, and a table that says what each shows."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from shiftproof.domains.domain import Domains
from shiftproof.domains.few_of_each import few_of_each
from shiftproof.domains.files import Directory
from shiftproof.domains.folder import domains_of_files
from shiftproof.domains.index import Index
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.errors import DataError
from shiftproof.types import Positive, Side

__all__ = ["Camelyon17"]

CLASSES = ("normal", "tumor")
COUNTS = {f"hospital_{number}": n for number, n in enumerate((59_436, 34_904, 85_054, 129_838, 146_722))}
"""Patches of every hospital, as published."""
PATCH = (96, 96)
"""Height and width of a patch, as published."""
SLIDES = 10
"""Slides of every hospital, as published."""
COLUMNS = ("patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
MARKED = {"hospital_1": "validation", "hospital_2": "test"}
"""What WILDS selects and tests on, whatever the table has."""
MARKS = {"0": "train", "1": "validation"}


@DOMAINS.register(
    "camelyon17",
    content="455,954 RGB 96x96 patches of lymph nodes, five hospitals; tumour in the centre or not",
    paper="Koh et al., ICML 2021 (WILDS); Bandi et al., IEEE TMI 2018",
)
@dataclass(frozen=True)
class Camelyon17(DataSet):
    """Patches of lymph nodes from five hospitals, with tumour in their central 32 x 32 pixels or without.

    Hospitals are domains, called as DomainBed calls them, and slides are groups. With `split` slides, a fifth of every
    hospital's slides validates. With official, the table decides, as WILDS does: hospital_1 validates and hospital_2
    tests, so neither can be trained on, and a tenth of the patches of the others validates, which comes from the slides
    that train; figures on it are too good. `whole` is false where only a part of the patches is here.

    `per_slide` takes at most so many patches of every slide, always the same, in place of all: intervals count slides,
    of which a limit on samples, which takes whole groups, leaves few.
    """

    size: Side = 96
    split: Literal["slides", "official"] = "slides"
    whole: bool = True
    per_slide: Positive | None = None

    files = ("camelyon17_v1.0/metadata.csv",)
    page = "https://wilds.stanford.edu/datasets/#camelyon17"
    layout = (
        "a folder camelyon17_v1.0 with metadata.csv and "
        "patches/patient_004_node_4/patch_patient_004_node_4_x_3328_y_21792.png, as the package wilds unpacks it"
    )

    def load(self) -> Domains:
        """Read the table; patches are decoded when they are asked for."""
        table = find_file(self.name, self.files[0], self.layout)
        rows = list(_rows(table, self.split == "official"))
        if not rows:
            raise DataError(f"{table} has no row. Expected: {self.layout}.")
        files = Directory(table.parent)
        states = files.states([path for path, *_ in rows])
        there = states[:, 0] >= 0
        if self.whole:
            _check(table, [row[0] for row in rows], np.flatnonzero(~there).tolist(), [row[2] for row in rows])
        chosen = np.flatnonzero(there)
        if not len(chosen):
            raise DataError(f"{table.parent} has none of the {len(rows):,} patches that {table.name} names")
        if self.per_slide is not None:
            own = [rows[place] for place in chosen]
            chosen = chosen[few_of_each(self.name, [row[4] for row in own], [row[0] for row in own], self.per_slide)]
        index = Index.of(files, (rows[place] for place in chosen), states=states[chosen], source=table)
        # what is in the centre of a patch decides its label: of patches of other sizes that is another part of it
        return domains_of_files(self.name, index, self.size, channels=3, published=PATCH if self.whole else None)

    def outline(self) -> Outline:
        """That of the published patches; of so many patches of a slide, those of ten slides a hospital."""
        most = max(COUNTS.values()) if self.per_slide is None else SLIDES * self.per_slide
        counts = {hospital: min(count, most) for hospital, count in COUNTS.items()}
        return Outline((3, self.size, self.size), CLASSES, counts)


def _rows(table: Path, official: bool) -> Iterator[tuple[str, str, str, str, str]]:
    """Path, class, hospital, split and slide of every patch that the table names."""
    hospital_of: dict[str, str] = {}
    for line, row in _records(table):
        label, hospital, slide = row["tumor"], f"hospital_{row['center']}", row["slide"]
        marked = MARKED.get(hospital) or MARKS.get(row["split"])
        if label not in ("0", "1") or hospital not in COUNTS or not slide or (official and marked is None):
            values = ", ".join(f"{name} {row[name]!r}" for name in ("tumor", "center", "slide", "split"))
            raise DataError(
                f"{table}, line {line}: {values}; tumor and split should be 0 or 1, center 0 to 4, slide a number"
            )
        if hospital_of.setdefault(slide, hospital) != hospital:
            raise DataError(
                f"{table}, line {line}: slide {slide} is of {hospital}, and above of {hospital_of[slide]}: a slide "
                "that is in two domains would be trained on and tested on"
            )
        part = f"patient_{row['patient']}_node_{row['node']}"
        path = f"patches/{part}/patch_{part}_x_{row['x_coord']}_y_{row['y_coord']}.png"
        yield path, CLASSES[int(label)], hospital, (marked or "") if official else "", f"slide-{slide}"


def _records(table: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of the table by the names of its columns, with the line of each."""
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            columns = [name.strip().lower() for name in next(lines, [])]
            if lacking := [name for name in COLUMNS if name not in columns]:
                has = ", ".join(filter(None, columns)) or "none"
                raise DataError(f"{table} lacks the column {lacking[0]!r}; it has {has}")
            places = {name: columns.index(name) for name in COLUMNS}
            for line in lines:
                if len(line) != len(columns):
                    raise DataError(
                        f"{table}, line {lines.line_num}: {len(line)} values for {len(columns)} columns; was it cut?"
                    )
                yield lines.line_num, {name: line[place].strip() for name, place in places.items()}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{table} is not a readable CSV file: {error}") from error


def _check(table: Path, paths: list[str], missing: list[int], hospitals: list[str]) -> None:
    """Refuse a folder that lacks patches, or whole hospitals, as one that was unpacked by half does."""
    part = "unpack the archive again, or, if only a part of it is wanted, say so: --set data.whole=false"
    if missing:
        raise DataError(
            f"{table.parent} lacks {len(missing):,} of the {len(paths):,} patches that {table.name} names, such as "
            f"{paths[missing[0]]}: {part}"
        )
    counts = Counter(hospitals)
    for hospital, count in COUNTS.items():
        if counts[hospital] < count:
            raise DataError(
                f"{table} names {counts[hospital]:,} patches of {hospital}, {count:,} are published: {part}"
            )
