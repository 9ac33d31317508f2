"""Samples of two domains without labels, dealt to two folds: one that fits a critic, and one that judges by it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import DataError, UsageError
from shiftproof.rng import derive
from shiftproof.types import FloatArray, IntArray

__all__ = ["FEWEST", "Folds", "Points", "check_points", "content_units", "deal", "set_apart", "unit_means"]

_COPY = " copy "
FEWEST = 8
"""Units of a domain below which nothing is judged: four in each fold, of which two choose between critics."""


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs of one domain (N x shape, float32), and the unit that each belongs to.

    Units are what was drawn at random: patients, or single samples. Several inputs of one unit count as one, their
    mean: then the domain is "a random unit, then a random sample of it".
    """

    name: str
    inputs: NDArray[np.float32]
    units: NDArray[np.object_]

    def __post_init__(self) -> None:
        if len(self.units) != len(self.inputs):
            raise DataError(f"{self.name!r} has {len(self.inputs)} inputs but {len(self.units)} units")
        if not np.isfinite(self.inputs).all():
            raise DataError(f"inputs of {self.name!r} hold values that are not numbers (NaN or infinite)")

    @classmethod
    def of(cls, name: str, inputs: NDArray[np.float32], groups: Iterable[str] | None = None) -> Points:
        """Inputs with their groups; without any, every input is a unit.

        Copies count as often as they are there: a law may well give the same input again (an empty scan), and leaving
        those out would be another law. That samples are independent draws is for whoever has collected them to say.
        """
        if groups is None:
            return cls(name, inputs, _numbered(content_units(inputs)))
        units = np.empty(len(inputs), object)
        units[:] = [f"group {group}" for group in groups]
        return cls(name, inputs, units)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return self.inputs.shape[1:]

    @property
    def count(self) -> int:
        """The number of units."""
        return len(set(self.units.tolist()))

    @property
    def different(self) -> int:
        """How many units differ in what they hold."""
        return len({str(unit).removeprefix("target: ").partition(_COPY)[0] for unit in self.units})

    def subset(self, rows: IntArray) -> Points:
        """Some of the inputs."""
        return Points(self.name, self.inputs[rows], self.units[rows])


class Folds(NamedTuple):
    """The two domains in one fold."""

    reference: Points
    target: Points


def content_units(inputs: NDArray[np.float32]) -> NDArray[np.object_]:
    """A hash of each input: what is the same to the last bit is the same unit."""
    units = np.empty(len(inputs), object)
    units[:] = [hashlib.blake2b(np.ascontiguousarray(one).tobytes(), digest_size=16).hexdigest() for one in inputs]
    return units


def _numbered(digests: NDArray[np.object_]) -> NDArray[np.object_]:
    """Units of their own for copies: the first, second, ... of each content."""
    met: Counter[str] = Counter()
    units = np.empty(len(digests), object)
    for row, digest in enumerate(digests.tolist()):
        met[digest] += 1
        units[row] = f"{digest}{_COPY}{met[digest]}"
    return units


def check_points(reference: Points, target: Points) -> None:
    """Refuse domains of other shapes, of too few samples, and a target that is the reference itself."""
    if reference.shape != target.shape:
        sizes = [" x ".join(map(str, points.shape)) for points in (target, reference)]
        raise DataError(f"inputs of {target.name!r} are {sizes[0]}, and those of {reference.name!r} {sizes[1]}")
    for points in (reference, target):
        if (count := points.different) < FEWEST:
            copies = f" ({len(points)} with copies, or of one group)" if count < len(points) else ""
            raise DataError(
                f"{points.name!r} holds {count} different sample{'s' * (count != 1)}{copies}; a distance "
                f"needs at least {FEWEST}, and says little below some hundred: add more"
            )
    if _is_part_of(target, reference):
        raise UsageError(
            f"every sample of {target.name!r} is one of {reference.name!r}: a distance compares two samples, and this "
            "is the same one twice"
        )


def _is_part_of(target: Points, reference: Points) -> bool:
    """Whether the target holds nothing that the reference does not hold: the same samples under the same names."""
    numbered = [_numbered(content_units(points.inputs)).tolist() for points in (target, reference)]
    if len(set(content_units(reference.inputs))) < len(reference):
        # where inputs repeat themselves by chance, a smaller sample of the same law may well be contained in a larger
        return sorted(numbered[0]) == sorted(numbered[1])
    return set(numbered[0]) <= set(numbered[1])


def set_apart(reference: Points, target: Points) -> tuple[Points, Points]:
    """Both domains, with inputs that are units by themselves as units of one side, though their content be the same.

    Equal inputs of two independent samples are no unit that both hold. To deal them together would tell which ones one
    side has more of: folds, and the orders of a permutation test, would depend on the values.
    """
    if not any(_COPY in str(unit) for unit in target.units):
        return reference, target
    units = np.empty(len(target), object)
    units[:] = [f"target: {unit}" if _COPY in str(unit) else unit for unit in target.units]
    return reference, Points(target.name, target.inputs, units)


def deal(reference: Points, target: Points, seed: int, purpose: str) -> tuple[Folds, Folds]:
    """Two folds of equal size, by a hash of units; a unit that both domains hold is in the same fold of both."""
    sides = [set(points.units.tolist()) for points in (reference, target)]
    shared = sides[0] & sides[1]
    first: set[str] = set()
    for units in (shared, sides[0] - shared, sides[1] - shared):
        ordered = sorted(units, key=lambda unit: derive(seed, purpose, str(unit)))
        first |= set(ordered[::2])
    inside = [np.array([unit in first for unit in points.units], bool) for points in (reference, target)]
    chosen = [(np.flatnonzero(mask), np.flatnonzero(~mask)) for mask in inside]
    one, other = (Folds(reference.subset(chosen[0][k]), target.subset(chosen[1][k])) for k in (0, 1))
    return one, other


def unit_means(values: FloatArray, units: NDArray[np.object_], seed: int) -> FloatArray:
    """The mean of each unit's values, in a random order of units that does not depend on the values."""
    ordered = sorted(set(units.tolist()), key=lambda unit: derive(seed, "order of units", str(unit)))
    place = {unit: index for index, unit in enumerate(ordered)}
    index = np.array([place[unit] for unit in units], np.int64)
    return np.bincount(index, values, len(ordered)) / np.bincount(index, minlength=len(ordered))
