"""Domains sampled from labelled image files that have the attribute of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shiftproof.domains.domain import Domain, Domains
from shiftproof.domains.files import Files
from shiftproof.domains.images import FileInputs
from shiftproof.domains.outline import Outline
from shiftproof.domains.shortcuts import ShortcutSet, cell_sizes, draws
from shiftproof.errors import DataError

__all__ = ["Candidate", "sampled_domains", "sampled_outline"]


@dataclass(frozen=True, order=True)
class Candidate:
    """An image file that may be taken: what it shows and which attribute it has, 0 or 1, and of which part it is."""

    path: str
    shows: int
    attribute: int
    is_test: bool


def sampled_domains(
    data: ShortcutSet,
    candidates: Sequence[Candidate],
    files: Files,
    classes: tuple[str, str],
    most: Sequence[int],
    inputs: Callable[[Sequence[str]], FileInputs],
) -> Domains:
    """Two domains of the training part, which is dealt to them by halves, and the target of the test part.

    No image is in two domains. `most` are the largest sizes; where a domain has fewer images to choose from, it is
    smaller. `inputs` opens files by their paths.
    """
    candidates = sorted(candidates)
    if twice := [one.path for one, after in pairwise(candidates) if one.path == after.path]:
        raise DataError(f"{data.name!r} lists {len(twice)} images more than once, such as {twice[0]}")
    paths = np.array([one.path for one in candidates], object)
    labels = data.noisy(np.array([one.shows for one in candidates], np.int64), paths)
    attributes = np.array([one.attribute for one in candidates], np.int64)
    halves = (draws(data.name, "domain", paths) < 0.5).astype(np.int64)
    place = np.where([one.is_test for one in candidates], 2, halves)
    domains, present = [], set(files.names())
    for number, name in enumerate(data.domain_names):
        pool = np.flatnonzero(place == number)
        chosen = pool[data.sampled(labels[pool], attributes[pool], paths[pool], number, most[number])]
        if gone := [path for path in paths[chosen] if path not in present]:
            raise DataError(f"{files.root} lacks {len(gone)} images that {data.name!r} lists, such as {gone[0]}")
        domains.append(Domain(name, classes, inputs(paths[chosen].tolist()), labels[chosen], paths[chosen]))
    return Domains(data.name, domains)


def sampled_outline(data: ShortcutSet, size: int, classes: tuple[str, str], most: Sequence[int]) -> Outline:
    """Domains at their largest sizes."""
    sizes = [sum(cell_sizes(n, agreement)) for n, agreement in zip(most, data.agreement, strict=True)]
    return Outline((3, size, size), classes, dict(zip(data.domain_names, sizes, strict=True)))
