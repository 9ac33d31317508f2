"""ImageNet (ILSVRC 2012) in its published folders: train and val, each with a folder of images for every class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from annotated_types import Interval

from shiftproof.domains.decoding import is_image
from shiftproof.domains.domain import Domains
from shiftproof.domains.files import Directory
from shiftproof.domains.folder import domains_of_files
from shiftproof.domains.index import Index
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, DataSet, find_file, look_for
from shiftproof.errors import DataError, DataNotFound
from shiftproof.types import Side

__all__ = ["ImageNet"]

SHORTER, CUT = 256, 224
"""Pixels of the shorter side before the centre is cut out, and of what is cut out; other sizes in proportion."""
CLASSES, TRAIN, VAL = 1_000, 1_281_167, 50_000
"""Classes and images as published."""
PAGE = "https://image-net.org/download-images"
LAYOUT = (
    "a folder imagenet with val/n01440764/ILSVRC2012_val_00000293.JPEG and train/n01440764/n01440764_18.JPEG, a folder "
    f"for each of 1,000 classes; the archives are published at {PAGE}"
)


@DOMAINS.register(
    "imagenet",
    content="1,281,167 train and 50,000 test RGB 224x224 photographs, 1,000 classes",
    source=PAGE,
    paper="Russakovsky et al., IJCV 2015",
)
@dataclass(frozen=True)
class ImageNet(DataSet):
    """A thousand kinds of things, as networks trained on it expect them: the centre, 224 pixels wide.

    The shorter side of an image is brought to 256 pixels and the central 224 x 224 are cut out; for another `size` both
    in proportion. The images of val are the test rows. Classes are the names of their folders (synsets) in alphabetical
    order, which is that of the outputs of published networks; so a tree that lacks one is refused. `train` is false
    where only val is here, or is to be read. `classes` is another number of folders, for a part of ImageNet.
    """

    size: Side = CUT
    train: bool = True
    classes: Annotated[int, Interval(ge=2, le=100_000)] = CLASSES

    files = ("imagenet/val", "imagenet/train")
    page = PAGE
    layout = LAYOUT

    def load(self) -> Domains:
        """List the images; they are decoded when they are asked for."""
        root = find_file(self.name, self.files[0], self.layout).parent
        if self.train and look_for(self.files[1]) is None:
            raise DataNotFound(
                f"data set {self.name!r} needs imagenet/train beside {root / 'val'}. Expected: {LAYOUT}. To measure on "
                "the images of val alone, say so: --set data.train=false, or data: {name: imagenet, train: false}"
            )
        index = _index(self.name, root, ("train", "val") if self.train else ("val",))
        self._check_classes(root, index)
        return domains_of_files(self.name, index, self.size, channels=3, shorter=round(self.size * SHORTER / CUT))

    def outline(self) -> Outline:
        """That of the published images; classes have their names where val is here, else numbers."""
        count = round((VAL + TRAIN * self.train) * self.classes / CLASSES)
        here = look_for(self.files[0])
        names = sorted(path.name for path in here.iterdir() if path.is_dir()) if here is not None else []
        named = names if len(names) == self.classes else [f"class {number}" for number in range(self.classes)]
        return Outline((3, self.size, self.size), tuple(named), {self.name: count})

    def _check_classes(self, root: Path, index: Index) -> None:
        """Refuse a tree with fewer classes, or more: all labels after the first that is missing would be others."""
        found: dict[str, set[str]] = {}
        for split, label in set(zip(index.splits, index.labels, strict=True)):
            found.setdefault("val" if split == "test" else split, set()).add(label)
        every = set.union(*found.values())
        for folder, labels in found.items():
            if lacking := every - labels:
                raise DataError(
                    f"{root / folder} has no image of {len(lacking)} classes that {root} has elsewhere, such as "
                    f"{min(lacking)}: unpack it again, or remove the class from both"
                )
        if len(every) != self.classes:
            raise DataError(
                f"{root} has images of {len(every):,} classes, not of {self.classes:,}: labels would not be those of "
                f"networks that were trained on all. If it is a part of ImageNet, say so: --set "
                f"data.classes={len(every)}"
            )


def _index(name: str, root: Path, folders: tuple[str, ...]) -> Index:
    """All images below some folders of the root, by class; nothing else there is looked at."""
    rows, states, ignored = list[tuple[str, str, str, str, str]](), [], 0
    for folder in folders:
        listing = Directory(root / folder).listing()
        assert listing.states is not None
        chosen = [place for place, file in enumerate(listing.names) if is_image(file)]
        loose = [file for file in map(listing.names.__getitem__, chosen) if "/" not in file]
        if loose or not chosen:
            seen = f"{len(loose):,} images that are in no class folder, such as {loose[0]}" if loose else "no image"
            raise DataError(f"{root / folder} has {seen}. Expected: {LAYOUT}.")
        split = "test" if folder == "val" else "train"
        for file in map(listing.names.__getitem__, chosen):
            rows.append((f"{folder}/{file}", file.partition("/")[0], name, split, ""))
        states.append(listing.states[chosen])
        ignored += len(listing.names) - len(chosen)
    return Index.of(Directory(root), rows, ignored=ignored, states=np.concatenate(states), source=root)
