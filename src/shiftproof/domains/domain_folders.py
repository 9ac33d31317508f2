"""Published sets of images in DomainBed's layout, root/domain/class/image, and what each should hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from shiftproof.domains.domain import Domains
from shiftproof.domains.files import open_files
from shiftproof.domains.folder import domains_of_files
from shiftproof.domains.index import Index, index_of_tree
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, DataSet, find_file
from shiftproof.errors import DataError
from shiftproof.types import Side

__all__ = ["PACS", "VLCS", "DomainFolders", "OfficeHome", "TerraIncognita"]


@dataclass(frozen=True)
class DomainFolders(DataSet):
    """A published data set of images at root/domain/class/image; subclasses say what it should hold.

    Images are resized to `size` pixels. `whole` is false where only a part of the data set is here: then domains,
    classes and images may be missing.
    """

    size: Side = 224
    whole: bool = True

    classes: ClassVar[tuple[str, ...]]
    counts: ClassVar[Mapping[str, int]]
    """Images of every domain, as published."""

    def load(self) -> Domains:
        """Open the archive or folder; images are decoded when they are asked for."""
        path = find_file(self.name, self.files[0], self.layout)
        index = index_of_tree(open_files(_root(path, self.counts)))
        if self.whole and len(index):
            self._check(path, index)
        return domains_of_files(self.name, index, self.size, channels=3)

    def outline(self) -> Outline:
        """That of the published images."""
        return Outline((3, self.size, self.size), self.classes, self.counts)

    def _check(self, path: Path, index: Index) -> None:
        """Refuse a tree that lacks something, as one that was unpacked by half does."""
        found, pairs = Counter(index.domains), set(zip(index.domains, index.labels, strict=True))
        part = "unpack it again, or, if only a part of it is wanted, say so: --set data.whole=false"
        for domain, count in self.counts.items():
            if domain not in found:
                there = ", ".join(sorted(found))
                raise DataError(f"{path} lacks the domain {domain!r} of {self.name}; it has {there}: {part}")
            if lacking := [label for label in self.classes if (domain, label) not in pairs]:
                raise DataError(f"{path} has no image of the class {lacking[0]!r} in {domain}: {part}")
            if found[domain] < count:
                raise DataError(f"{path} has {found[domain]:,} images of {domain}, {count:,} are published: {part}")
        for domain, label in sorted(pairs):
            if domain not in self.counts:
                raise DataError(f"{path} has a domain {domain!r}, which {self.name} has not: take it out of there")
            if label not in self.classes:
                raise DataError(f"{path} has a class {label!r} in {domain}, which {self.name} has not: take it out")


def _root(path: Path, domains: Mapping[str, int]) -> Path:
    """The folder with the domains: that of the data set, or the only one in it that has any, as archives have."""
    if not path.is_dir() or any((path / name).is_dir() for name in domains):
        return path
    inner = [one for one in sorted(path.iterdir()) if any((one / name).is_dir() for name in domains)]
    return inner[0] if len(inner) == 1 else path


@DOMAINS.register(
    "pacs",
    content="9,991 RGB images in art_painting, cartoon, photo, sketch; seven classes",
    paper="Li et al., ICCV 2017",
)
@dataclass(frozen=True)
class PACS(DomainFolders):
    """Photographs, art, cartoons and sketches of seven things, resized to `size` pixels.

    `whole` is false where only a part of it is here.
    """

    size: Side = 64

    files = ("pacs_64.zip or pacs.zip or pacs_64 or pacs or PACS",)
    page = "https://github.com/facebookresearch/DomainBed"
    layout = "art_painting, cartoon, photo and sketch, each with seven class folders of images, as a folder or zipped"
    classes = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    counts: ClassVar = {"art_painting": 2_048, "cartoon": 2_344, "photo": 1_670, "sketch": 3_929}


@DOMAINS.register(
    "vlcs",
    content="10,729 RGB photographs in Caltech101, LabelMe, SUN09, VOC2007; five classes",
    paper="Fang et al., ICCV 2013",
)
@dataclass(frozen=True)
class VLCS(DomainFolders):
    """Photographs of five things from four collections, resized to `size` pixels.

    `whole` is false where only a part of it is here.
    """

    files = ("VLCS or vlcs or VLCS.zip or vlcs.zip",)
    page = "https://github.com/facebookresearch/DomainBed"
    layout = "Caltech101, LabelMe, SUN09 and VOC2007, each with five class folders of images, as a folder or zipped"
    classes = ("bird", "car", "chair", "dog", "person")
    counts: ClassVar = {"Caltech101": 1_415, "LabelMe": 2_656, "SUN09": 3_282, "VOC2007": 3_376}


@DOMAINS.register(
    "office-home",
    content="15,588 RGB images in Art, Clipart, Product, Real World; 65 classes",
    paper="Venkateswara et al., CVPR 2017",
)
@dataclass(frozen=True)
class OfficeHome(DomainFolders):
    """Art, clip art, product pictures and photographs of 65 things of offices and homes, resized to `size` pixels.

    `whole` is false where only a part of it is here.
    """

    files = ("office_home or OfficeHome or OfficeHomeDataset_10072016 or office_home.zip or OfficeHome.zip",)
    page = "https://www.hemanthdv.org/officeHomeDataset.html"
    layout = "Art, Clipart, Product and Real World, each with 65 class folders of images, as a folder or zipped"
    classes = (
        *("Alarm_Clock", "Backpack", "Batteries", "Bed", "Bike", "Bottle", "Bucket", "Calculator", "Calendar"),
        *("Candles", "Chair", "Clipboards", "Computer", "Couch", "Curtains", "Desk_Lamp", "Drill", "Eraser"),
        *("Exit_Sign", "Fan", "File_Cabinet", "Flipflops", "Flowers", "Folder", "Fork", "Glasses", "Hammer"),
        *("Helmet", "Kettle", "Keyboard", "Knives", "Lamp_Shade", "Laptop", "Marker", "Monitor", "Mop", "Mouse"),
        *("Mug", "Notebook", "Oven", "Pan", "Paper_Clip", "Pen", "Pencil", "Postit_Notes", "Printer", "Push_Pin"),
        *("Radio", "Refrigerator", "Ruler", "Scissors", "Screwdriver", "Shelf", "Sink", "Sneakers", "Soda"),
        *("Speaker", "Spoon", "TV", "Table", "Telephone", "ToothBrush", "Toys", "Trash_Can", "Webcam"),
    )
    counts: ClassVar = {"Art": 2_427, "Clipart": 4_365, "Product": 4_439, "Real World": 4_357}


@DOMAINS.register(
    "terra-incognita",
    content="24,330 RGB images of camera traps at location_38, _43, _46 and _100; ten classes",
    paper="Beery et al., ECCV 2018",
)
@dataclass(frozen=True)
class TerraIncognita(DomainFolders):
    """Animals in front of camera traps at four places, resized to `size` pixels.

    DomainBed's selection. Copies from before 2021 have 24,788 images, later ones 24,330; both are read. `whole` is
    false where only a part of it is here.
    """

    files = ("terra_incognita or TerraIncognita or terra_incognita.zip",)
    page = "https://lila.science/datasets/caltech-camera-traps"
    layout = (
        "location_38, location_43, location_46 and location_100, each with ten class folders of images, as DomainBed's "
        "download.py makes them, as a folder or zipped"
    )
    classes = ("bird", "bobcat", "cat", "coyote", "dog", "empty", "opossum", "rabbit", "raccoon", "squirrel")
    counts: ClassVar = {"location_100": 4_741, "location_38": 9_736, "location_43": 3_970, "location_46": 5_883}
