"""DomainNet: animals and vehicles, with the style of the picture as a shortcut."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from shiftproof.domains.domain import Domains
from shiftproof.domains.files import Files, open_files
from shiftproof.domains.gathered import GatheredFiles
from shiftproof.domains.images import FileInputs
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, data_folder, find_file
from shiftproof.domains.sampled import Candidate, sampled_domains, sampled_outline
from shiftproof.domains.shortcuts import ShortcutSet
from shiftproof.errors import DataError, UsageError
from shiftproof.types import Side

__all__ = ["DomainNet"]

Style = Literal["clipart", "infograph", "painting", "quickdraw", "real", "sketch"]
ANIMALS = ("bear", "camel", "elephant", "giraffe", "horse", "lion", "rhinoceros", "sheep", "tiger", "zebra")
VEHICLES = (
    *("aircraft_carrier", "bus", "canoe", "cruise_ship", "helicopter", "skateboard", "speedboat", "submarine"),
    *("train", "truck"),
)
MOST = (3_500, 3_500, 3_000)
"""Images a domain; with default options the published files have that many."""
PAGE = "http://ai.bu.edu/M3SDA"
LAYOUT = (
    "a folder domainnet with a folder or zip of every style (real/zebra/real_344_000001.jpg) and its lists "
    f"real_train.txt and real_test.txt, as published at {PAGE}"
)


@DOMAINS.register(
    "domainnet",
    content="agrees = 0.9, 0.8, 0.1: 3,500 + 3,500 + 3,000 photos and drawings 3x64x64 of animals and vehicles",
    source=PAGE,
    paper="Peng et al., ICCV 2019",
)
@dataclass(frozen=True)
class DomainNet(ShortcutSet):
    """Animals and vehicles in two styles, sampled so that style predicts the label in two domains and betrays it then.

    The label says of which of two groups of classes, `first` or `second`, an image is: ten land animals and ten
    vehicles unless told. The attribute is the style: of `styles`, the first goes with the first group where they agree.
    A photograph has a background and a drawing has none. The official training lists give the two sources, the test
    lists the target. Nothing is painted; images are stretched to `size`.
    """

    size: Side = 64
    styles: tuple[Style, Style] = ("real", "quickdraw")
    first: tuple[str, ...] = ANIMALS
    second: tuple[str, ...] = VEHICLES

    files = (
        *("domainnet/real_train.txt", "domainnet/real_test.txt", "domainnet/real.zip or domainnet/real"),
        *("domainnet/quickdraw_train.txt", "domainnet/quickdraw_test.txt"),
        "domainnet/quickdraw.zip or domainnet/quickdraw",
    )
    page = PAGE
    layout = LAYOUT

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.styles[0] == self.styles[1]:
            raise UsageError(f"styles of {self.name} are {self.styles[0]} twice; they should differ")
        if not self.first or not self.second or set(self.first) & set(self.second):
            raise UsageError(f"first and second of {self.name} should be groups of classes that share none")

    @property
    def classes(self) -> tuple[str, str]:
        """A group of classes is called by its first."""
        return _name(self.first), _name(self.second)

    def load(self) -> Domains:
        """Read the lists; images are decoded when they are asked for."""
        label = {name: number for number, group in enumerate((self.first, self.second)) for name in group}
        candidates: list[Candidate] = []
        trees: dict[str, Files] = {}
        for attribute, style in enumerate(self.styles):
            for part in ("train", "test"):
                path = find_file(self.name, f"domainnet/{style}_{part}.txt", self.layout)
                found = [(name, label[kind]) for name, kind in _images(path, style) if kind in label]
                candidates += [Candidate(name, number, attribute, part == "test") for name, number in found]
            trees[style] = open_files(find_file(self.name, f"domainnet/{style}.zip or domainnet/{style}", self.layout))
        if missing := set(label) - {one.path.split("/")[1] for one in candidates}:
            raise DataError(f"the lists of {' and '.join(self.styles)} have no image of the class {min(missing)!r}")
        files = GatheredFiles(data_folder() / "domainnet", trees)
        inputs = partial(FileInputs, files, shape=(3, self.size, self.size))
        return sampled_domains(self, candidates, files, self.classes, MOST, inputs)

    def outline(self) -> Outline:
        """That of the published images."""
        return sampled_outline(self, self.size, self.classes, MOST)


def _name(group: tuple[str, ...]) -> str:
    return group[0] if len(group) == 1 else f"{group[0]} and {len(group) - 1} more"


def _images(path: Path, style: str) -> list[tuple[str, str]]:
    """Path and class of every image that a list names, one a line with a number behind it."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} can't be read: {error}") from error
    images = []
    for number, line in enumerate(lines, 1):
        name = line.rpartition(" ")[0]
        parts = name.split("/")
        if len(parts) != 3 or parts[0] != style:
            raise DataError(f"{path}, line {number}: expected '{style}/class/image.jpg number', not {line[:80]!r}")
        images.append((name, parts[1]))
    return images
