"""Train, validation and held-out parts of a domain, decided by a hash: stable when samples are added or removed."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.domain import Domain
from shiftproof.errors import DataError
from shiftproof.types import IntArray

__all__ = ["VALIDATION_FRACTION", "held_out", "stratified", "train_part", "validation_part"]

VALIDATION_FRACTION = 0.2
"""DomainBed's 80/20."""


def train_part(domain: Domain) -> Domain:
    """What a source domain trains on: about four fifths, or the rows that the data set marks as train."""
    return _part(domain, "train")


def validation_part(domain: Domain) -> Domain:
    """What selects a model: about one fifth of the training rows, chosen by group or sample id, never trained on."""
    return _part(domain, "validation")


def held_out(domain: Domain) -> Domain:
    """What a source domain is measured on: its test rows where the data set has them, else its validation part."""
    if domain.splits is not None and np.any(domain.splits == "test"):
        return _part(domain, "test")
    return validation_part(domain)


def stratified(domain: Domain, limit: int | None) -> Domain:
    """At most `limit` samples, every class in its share: equal steps through samples that are sorted by class."""
    if limit is None or limit >= len(domain):
        return domain
    by_class = np.argsort(domain.labels, kind="stable")
    steps = (np.arange(limit) + 0.5) * len(domain) / limit
    return domain.subset(np.sort(by_class[steps.astype(np.int64)]))


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
