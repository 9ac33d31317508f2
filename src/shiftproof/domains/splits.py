"""Train, validation and held-out parts of a domain, decided by a hash: stable when samples are added or removed."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.domain import Domain
from shiftproof.errors import DataError, UnknownName, UsageError
from shiftproof.rng import derive
from shiftproof.types import IntArray

__all__ = [
    "PARTS",
    "VALIDATION_FRACTION",
    "Balanced",
    "balanced_order",
    "check_part",
    "first_samples",
    "has_training_rows",
    "held_out",
    "most_samples",
    "part_of",
    "random_order",
    "train_part",
    "validation_part",
]

PARTS = ("all", "train", "validation", "test", "held-out")
"""Parts of a domain by name; held out are the test rows where the data set has them, else the validation part."""

VALIDATION_FRACTION = 0.2
"""DomainBed's 80/20."""


@dataclass(frozen=True)
class Balanced:
    """A limit of so many samples of a domain in all, the same number from every class as far as there are.

    With more classes than samples, at most one of each. A share of such samples is the mean over classes, and not the
    domain's.
    """

    balanced: int


def train_part(domain: Domain) -> Domain:
    """What a source domain trains on: about four fifths, or the rows that the data set marks as train."""
    return _part(domain, "train")


def has_training_rows(domain: Domain) -> bool:
    """Whether there is anything to train on: data that somebody else has split may be test rows alone."""
    return bool(np.any(parts(domain) == 0))


def validation_part(domain: Domain) -> Domain:
    """What selects a model: about one fifth of the training rows, chosen by group or sample id, never trained on."""
    return _part(domain, "validation")


def held_out(domain: Domain) -> Domain:
    """What a source domain is measured on: its test rows where the data set has them, else its validation part."""
    if domain.splits is not None and np.any(domain.splits == "test"):
        return _part(domain, "test")
    return validation_part(domain)


def check_part(name: str | None) -> str | None:
    """The name of a part, or None; UnknownName for any other."""
    if name is not None and name not in PARTS:
        raise UnknownName("part of the data", name, PARTS)
    return name


def part_of(domain: Domain, name: str) -> Domain:
    """The part of a domain called all, train, validation, test or held-out."""
    check_part(name)
    if name == "all":
        return domain
    if name == "held-out":
        return held_out(domain)
    if name == "test" and not (domain.splits is not None and np.any(domain.splits == "test")):
        raise DataError(
            f"domain {domain.name!r} has no rows that are marked as test; take --split held-out, which is "
            "the fifth that training leaves out, or --split all"
        )
    return _part(domain, name)


def random_order(domain: Domain, sample_seed: int = 0) -> IntArray:
    """The indices of all samples in a random order: that of their units, and within a unit that of the samples.

    It depends on the seed, groups and ids alone, so that equal ids in two domains come in the same order.
    """
    ids = _places(sample_seed, domain.ids)
    if domain.groups is None:
        return _order(ids)
    numbers: dict[str, int] = {}
    members = [numbers.setdefault(str(group), len(numbers)) for group in domain.groups]
    return _order([*(word[members] for word in _places(sample_seed, numbers)), *ids])


def balanced_order(domain: Domain, sample_seed: int = 0) -> IntArray:
    """The indices of all samples in turns: the first of every class in the random order, then the second of each.

    Within a turn, classes come by a hash of the seed and their names, however many samples they have. A class without
    further samples is passed over. Of a class, groups come one after the other, with those samples that are of it.
    """
    if domain.is_regression:
        raise UsageError(
            f"labels of {domain.name!r} are numbers, so that there are no classes to balance; take --limit 100 in "
            "place of --limit balanced:100 (in a study limit: 100, and likewise for prefix)"
        )
    order = random_order(domain, sample_seed)
    labels = domain.labels[order]
    counts = np.bincount(labels, minlength=len(domain.classes))
    turns = np.empty(len(order), np.int64)
    turns[np.argsort(labels, kind="stable")] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = np.empty(len(counts), np.int64)
    places[_order(_places(sample_seed, domain.classes, "classes"))] = np.arange(len(counts))
    return order[np.lexsort((places[labels], turns))]


def first_samples(domain: Domain, limit: int | Balanced | None, sample_seed: int = 0) -> Domain:
    """At most `limit` samples: the first in a random order, whole groups where there are any; the last may be cut.

    A simple random sample, which an interval may speak of: no class, no file name has a say in it; of a balanced limit
    so many of every class, and of each class a random sample. A larger limit takes the same samples and more.
    """
    most = most_samples(limit)
    if most is None or most >= len(domain):
        return domain
    order = (balanced_order if isinstance(limit, Balanced) else random_order)(domain, sample_seed)
    return domain.subset(np.sort(order[:most]))


def most_samples(limit: int | Balanced | None) -> int | None:
    """How many samples of a domain a limit takes in all, at most; None for all of them."""
    return limit.balanced if isinstance(limit, Balanced) else limit


def _places(sample_seed: int, names: Iterable[object], purpose: str = "samples") -> list[NDArray[np.uint64]]:
    """Where names come in a random order, by their hashes: the upper and the lower half of each, as numbers."""
    found = b"".join(derive(sample_seed, purpose, str(one)).to_bytes(16, "big") for one in names)
    return list(np.frombuffer(found, ">u8").reshape(-1, 2).astype(np.uint64).T)


def _order(words: Sequence[NDArray[np.uint64]]) -> IntArray:
    """The order by the first of several columns of numbers, of equal ones by the next, and so on."""
    return np.lexsort(words[::-1]).astype(np.int64)


def parts(domain: Domain) -> IntArray:
    """For each sample: 0 train, 1 validation, 2 test."""
    if domain.splits is None:
        return _hashed(domain.units)
    marked = domain.splits
    if np.any(marked == "validation"):
        chosen = (marked == "validation").astype(np.int64)
    else:
        chosen = np.zeros(len(domain), np.int64)
        chosen[marked != "test"] = _hashed(domain.units[marked != "test"])
    return np.where(marked == "test", 2, chosen)


def _hashed(units: NDArray[np.object_]) -> IntArray:
    """0 or 1 for each sample by the hash of its unit; of two or more units at least one is on either side."""
    fractions = np.array([_fraction(unit) for unit in units])
    if not len(fractions) or fractions.min() == fractions.max():
        return np.zeros(len(units), np.int64)
    threshold = min(max(VALIDATION_FRACTION, np.nextafter(fractions.min(), 1)), fractions.max())
    chosen: IntArray = (fractions < threshold).astype(np.int64)
    return chosen


def _part(domain: Domain, name: str) -> Domain:
    chosen = np.flatnonzero(parts(domain) == ("train", "validation", "test").index(name))
    if not len(chosen) and domain.splits is not None and np.all(domain.splits == "test"):
        raise DataError(f"all {len(domain)} samples of {domain.name!r} are test rows: measure on them, train elsewhere")
    if not len(chosen):
        groups = "" if domain.groups is None else f" in {len(set(domain.groups.tolist()))} groups"
        raise DataError(
            f"domain {domain.name!r} has {len(domain)} samples{groups}: too few, the {name} part is empty; "
            "add some, or say which is which in the split column of a CSV manifest"
        )
    return domain.subset(chosen)


def _fraction(unit: object) -> float:
    digest = hashlib.blake2b(str(unit).encode(), digest_size=8, person=b"shiftproof-split").digest()
    return int.from_bytes(digest, "little") / 2**64
