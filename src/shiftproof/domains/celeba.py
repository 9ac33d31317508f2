"""CelebA: faces that smile or do not, with the colour of the hair as a shortcut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from shiftproof.domains.domain import Domains
from shiftproof.domains.files import Files, open_files
from shiftproof.domains.images import FileInputs
from shiftproof.domains.outline import Outline
from shiftproof.domains.registry import DOMAINS, find_file
from shiftproof.domains.sampled import Candidate, sampled_domains, sampled_outline
from shiftproof.domains.shortcuts import ShortcutSet
from shiftproof.errors import DataError
from shiftproof.types import Side

__all__ = ["CelebA"]

CLASSES = ("not smiling", "smiling")
LABEL, HAIR = "Smiling", ("Black_Hair", "Blond_Hair")
MOST = (14_000, 14_000, 2_400)
"""Images a domain; at the default agreement the published files have that many."""
TRAIN, TEST = "0", "2"
PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
LAYOUT = (
    "a folder celeba with img_align_celeba (or its zip), list_attr_celeba.txt and list_eval_partition.txt (or .csv), "
    f"as published at {PAGE}"
)


@DOMAINS.register(
    "celeba",
    content="agrees = 0.9, 0.8, 0.1: 14,000 + 14,000 + 2,400 faces 3x64x64, smiling or not; black or blond hair",
    source=PAGE,
    paper="Liu et al., ICCV 2015",
)
@dataclass(frozen=True)
class CelebA(ShortcutSet):
    """Faces, smiling or not, sampled so that blond hair goes with a smile in two domains and with none in the third.

    Of images with either black or blond hair, the official training part gives the two sources and the test part, which
    shows other people, the target. Nothing is painted. Images are cut to their central 178 x 178 pixels and resized to
    `size`.
    """

    size: Side = 64

    files = (
        "celeba/list_attr_celeba.txt or celeba/list_attr_celeba.csv",
        "celeba/list_eval_partition.txt or celeba/list_eval_partition.csv",
        "celeba/img_align_celeba.zip or celeba/img_align_celeba",
    )
    page = PAGE
    layout = LAYOUT

    def load(self) -> Domains:
        """Read the lists; images are decoded when they are asked for."""
        attributes, partition, images = (find_file(self.name, file, self.layout) for file in self.files)
        files = _images(images)
        inputs = partial(FileInputs, files, shape=(3, self.size, self.size), square=True)
        return sampled_domains(self, _candidates(attributes, partition), files, CLASSES, MOST, inputs)

    def outline(self) -> Outline:
        """That of the published images."""
        return sampled_outline(self, self.size, CLASSES, MOST)


def _images(path: Path) -> Files:
    # unpacked twice into a folder of the same name, as some copies are
    inner = path / path.name
    return open_files(inner if inner.is_dir() else path)


def _candidates(attributes: Path, partition: Path) -> list[Candidate]:
    """Images of the train and test parts with either black or blond hair."""
    part = {name: value for name, (value,) in _rows(partition, ["partition"], header=False)}
    kept = []
    for name, values in _rows(attributes, [LABEL, *HAIR], header=True):
        if name not in part:
            raise DataError(f"{partition} does not say of which part {name} is; {attributes} lists it")
        if not set(values) <= {"1", "-1", "0"}:
            raise DataError(f"{attributes}: attributes of {name} are {', '.join(values)}; expected 1 or -1")
        smiles, black, blond = (value == "1" for value in values)
        if black != blond and part[name] in (TRAIN, TEST):
            kept.append(Candidate(name, int(smiles), int(blond), part[name] == TEST))
    return kept


def _rows(path: Path, wanted: list[str], *, header: bool) -> Iterator[tuple[str, list[str]]]:
    """A file's name and the wanted columns of each row, of the published text or of a CSV file.

    The text has fields between spaces and, where it names its columns, a count of rows before them.
    """
    try:
        lines = [line for line in path.read_text("utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} can't be read: {error}") from error
    separator = "," if path.suffix == ".csv" else None
    names, count = wanted, len(lines)
    if separator:
        names, lines = [name.strip() for name in "".join(lines[:1]).split(separator)[1:]], lines[1:]
        count = len(lines)
    elif header:
        if len(lines) < 2 or not lines[0].strip().isdecimal():
            raise DataError(f"{path} should begin with the number of images and the names of attributes")
        count, names, lines = int(lines[0]), lines[1].split(), lines[2:]
    if lacking := [name for name in wanted if name not in names]:
        raise DataError(f"{path} lacks the column {lacking[0]!r}; it has {', '.join(names[:5]) or 'none'} ...")
    if count != len(lines):
        raise DataError(f"{path} says that it lists {count:,} images and lists {len(lines):,}: was it cut?")
    places = [1 + names.index(name) for name in wanted]
    for line in lines:
        row = line.split(separator)
        if len(row) != 1 + len(names):
            raise DataError(f"{path}: the row of {row[0]} has {len(row) - 1} values, not {len(names)}")
        yield row[0].strip(), [row[place].strip() for place in places]
