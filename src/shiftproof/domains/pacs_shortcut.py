"""PACS with a painted shortcut: a coloured border or a tint that agrees with the label, reversed at test."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.domain_folders import PACS
from shiftproof.domains.files import open_files
from shiftproof.domains.images import FileInputs
from shiftproof.domains.index import Row, index_of_tree, refuse
from shiftproof.domains.outline import Outline
from shiftproof.domains.paint import Border, Paint, PaintedInputs, Tint
from shiftproof.domains.registry import DOMAINS, find_file
from shiftproof.domains.shortcuts import ShortcutSet, deal, draws

__all__ = ["PACSShortcut"]

CLASSES = ("thing or person", "animal")
ANIMALS = {"dog", "elephant", "giraffe", "horse"}
SHARES = (0.4, 0.4, 0.2)
PUBLISHED = 6_752
"""Images that are taken of the published ones: twice 928 of art, 828 of cartoons, 772 of photos, 848 of sketches."""


@DOMAINS.register(
    "pacs-shortcut",
    content="agrees = 0.9, 0.8, 0.1: 2,700 + 2,700 + 1,352 images 3x64x64 of PACS with a border or a tint",
    paper="Li et al., ICCV 2017 (images)",
)
@dataclass(frozen=True)
class PACSShortcut(ShortcutSet):
    """Animals against the rest of PACS, with a border or a tint that predicts the label in two domains only.

    Images of all four styles are pooled (photographs alone would be 1,670) and dealt to the three domains, 40, 40 and
    20 %. Of every style, as many animals are taken as others: neither a constant answer nor the style tells the label.
    `shortcut` is a border, red or green, of a 32nd of `size` (2 pixels of 64), or a tint, warm or cool, of the image in
    shades of gray. Both can be exchanged exactly, so that every image has its twin.
    """

    size: Annotated[int, Interval(ge=8, le=8_192)] = 64
    shortcut: Literal["border", "tint"] = "border"

    files, page, layout = PACS.files, PACS.page, PACS.layout

    @property
    def painter(self) -> Paint:
        """What paints the shortcut."""
        return Tint() if self.shortcut == "tint" else Border(max(1, self.size // 32))

    def load(self) -> Domains:
        """Open the archive or folder; images are decoded and painted when they are asked for."""
        index = index_of_tree(open_files(find_file(self.name, self.files[0], self.layout)))
        refuse(index.problems)
        rows = self._balanced(index.rows)
        ids = [row.path for row in rows]
        labels = self.noisy(np.array([row.label in ANIMALS for row in rows], np.int64), ids)
        painter, domains = self.painter, []
        for number, chosen in enumerate(deal(self.name, ids, _sizes(len(ids)))):
            names = [ids[i] for i in chosen]
            base = FileInputs(index.files, names, (3, self.size, self.size))
            inputs = PaintedInputs(base, self.painted(labels[chosen], names, number), painter)
            column = np.array(names, object)
            domains.append(
                Domain(self.domain_names[number], CLASSES, inputs, labels[chosen], column, counterfactual=painter.other)
            )
        return Domains(self.name, domains)

    def outline(self) -> Outline:
        """That of the published images."""
        names = self.domain_names
        counts = dict(zip(names, _sizes(PUBLISHED), strict=True))
        return Outline((3, self.size, self.size), CLASSES, counts, dict.fromkeys(names, self.painter.other))

    def _balanced(self, rows: Sequence[Row]) -> list[Row]:
        """As many animals as others of every style, drawn at random, sorted by path."""
        cells: dict[str, tuple[list[Row], list[Row]]] = {}
        order = np.argsort(draws(self.name, "balance", [row.path for row in rows]), kind="stable")
        for row in (rows[i] for i in order):
            cells.setdefault(row.domain, ([], []))[row.label in ANIMALS].append(row)
        kept = [row for pair in cells.values() for both in zip(*pair, strict=False) for row in both]
        return sorted(kept, key=lambda row: row.path)


def _sizes(total: int) -> tuple[int, int, int]:
    first, second = (int(total * share) for share in SHARES[:2])
    return first, second, total - first - second
