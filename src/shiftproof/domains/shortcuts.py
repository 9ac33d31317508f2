"""A shortcut that two training domains reward and the target punishes: the construction behind several data sets.

Every image has a binary label, of which `label_noise` are flipped, and an attribute that anybody can see (a colour, a
border, the hair, the style). In a domain called ``agrees=0.9`` the attribute agrees with the label nine times in ten.
Training domains have 0.9 and 0.8, the target 0.1. Labels are noisy because otherwise what the image shows would predict
them better than the attribute, and no model would be tempted: with a quarter flipped, the attribute is right 85 % of
the time in training, the image 75 %, everywhere.

The attribute is *painted* where images are made for it, and *sampled* where they have it of their own: then each domain
takes as many images of every (label, attribute) as the agreement asks for, labels half and half. Either way the share
is kept exactly, up to rounding, for each label.

What is drawn for an image depends on its id alone, so that everybody has the same domains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

from shiftproof.domains.registry import DataSet
from shiftproof.errors import DataError, UsageError
from shiftproof.rng import derive
from shiftproof.types import FloatArray, IntArray

__all__ = ["Share", "ShortcutSet", "cell_sizes", "deal", "draws", "flip"]

CONSTRUCTION_SEED = 0
Ids = Sequence[str] | NDArray[np.object_]
Share = Annotated[float, Interval(ge=0, le=1)]


@dataclass(frozen=True)
class ShortcutSet(DataSet):
    """A data set of three domains in which an attribute agrees with the label as often as `agreement` says.

    `agreement` has the two training domains first and the target last; `label_noise` is the share of flipped labels.
    """

    agreement: tuple[Share, Share, Share] = (0.9, 0.8, 0.1)
    label_noise: Share = 0.25

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.domain_names)) < len(self.agreement):
            raise UsageError(f"agreement of {self.name} is {self.agreement}; its three numbers should differ")

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Names of the three domains, the target last."""
        return tuple(f"agrees={share:g}" for share in self.agreement)

    def noisy(self, truth: IntArray, ids: Ids) -> IntArray:
        """Labels 0 or 1, some of them flipped."""
        return flip(truth, draws(self.name, "label", ids) < self.label_noise)

    def painted(self, labels: IntArray, ids: Ids, domain: int) -> IntArray:
        """The attribute, 0 or 1, that each image of a domain is given: of either label, the stated share agrees."""
        shuffled = np.argsort(draws(self.name, "attribute", ids), kind="stable")
        disagrees = np.zeros(len(labels), np.bool_)
        for label in (0, 1):
            members = shuffled[labels[shuffled] == label]
            disagrees[members[round(len(members) * self.agreement[domain]) :]] = True
        return flip(labels, disagrees)

    def sampled(self, labels: IntArray, attributes: IntArray, ids: Ids, domain: int, most: int) -> IntArray:
        """Which images make up a domain of at most `most`: as many of each label and attribute as it should have."""
        shuffled = np.argsort(draws(self.name, "sample", ids), kind="stable")
        cells = [shuffled[(labels[shuffled] == label) & (attributes[shuffled] == value)] for label, value in _CELLS]
        agreement = self.agreement[domain]
        shares = (agreement / 2, agreement / 2, (1 - agreement) / 2, (1 - agreement) / 2)
        room = [int(len(cell) / share) for cell, share in zip(cells, shares, strict=True) if share > 0]
        sizes = cell_sizes(min(most, *room), agreement)
        if any(size == 0 < share for size, share in zip(sizes, shares, strict=True)):
            found = ", ".join(f"{len(cell)} with {pair}" for cell, pair in zip(cells, _CELLS, strict=True))
            raise DataError(
                f"too few images for the domain {self.domain_names[domain]!r} of {self.name!r}: there are, by "
                f"(label, attribute), {found}"
            )
        return np.sort(np.concatenate([cell[:size] for cell, size in zip(cells, sizes, strict=True)]))


_CELLS = ((0, 0), (1, 1), (0, 1), (1, 0))
"""(label, attribute), those that agree first."""


def cell_sizes(total: int, agreement: float) -> tuple[int, int, int, int]:
    """How many of `total` images have label and attribute (0, 0), (1, 1), (0, 1), (1, 0); labels are half and half.

    >>> cell_sizes(1000, 0.9)
    (450, 450, 50, 50)
    """
    half = total // 2
    agree = round(half * agreement)
    return agree, agree, half - agree, half - agree


def draws(construction: str, purpose: str, ids: Ids) -> FloatArray:
    """A uniform number in [0, 1) for each id, the same whatever other ids there are."""
    return np.array([derive(CONSTRUCTION_SEED, construction, purpose, one) / 2**128 for one in ids], np.float64)


def flip(bits: IntArray, where: NDArray[np.bool_]) -> IntArray:
    """0 for 1 and 1 for 0 at the places that `where` says."""
    return np.where(where, 1 - bits, bits).astype(np.int64)


def deal(construction: str, ids: Ids, sizes: Sequence[int]) -> list[IntArray]:
    """Indices of the ids in parts of the given sizes, at random, each part sorted."""
    order = np.argsort(draws(construction, "domain", ids), kind="stable")
    return [np.sort(part) for part in np.split(order, np.cumsum(sizes)[:-1])]
