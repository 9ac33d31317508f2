"""What shares mean where samples were taken by their class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shiftproof.evidence import Evidence

__all__ = ["balanced_note", "class_counts"]


def balanced_note(evidence: Evidence) -> str:
    """A sentence on the domains of which as many samples of every class were measured; nothing where there are none."""
    balanced = evidence.where(sampled="balanced")
    if not len(balanced):
        return ""
    names = ", ".join(balanced.distinct("domain"))
    return (
        f"Classes of {names} are equally represented, as far as there are samples, because a limit took them so: a "
        "share is the mean over classes, and not that of the domain."
    )


def class_counts(
    labels: Mapping[str, Mapping[str, int]], classes: Sequence[str], evidence: Evidence
) -> dict[str, Mapping[str, int]]:
    """How many samples of each class accuracy is about: those that were measured of a domain where they were taken by
    their class, else all that it has (`labels`), of which those are a random part.
    """
    counts = dict(labels)
    for one in evidence.where(probe="clean", sampled="balanced"):
        found = np.bincount(one["label"], minlength=len(classes)).tolist()
        counts[one.domain] = dict(zip(classes, found, strict=True))
    return counts
