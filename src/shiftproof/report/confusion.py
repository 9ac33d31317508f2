"""Which classes are right and what is taken for what, on the sources together and on each target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shiftproof.evidence import Evidence, Measurement, worst_seen
from shiftproof.types import FloatArray, IntArray

__all__ = ["ClassAnswers", "answers_by_class"]


@dataclass(frozen=True, eq=False)
class ClassAnswers:
    """How often samples of each class got each answer: `counts[label, answer]`, summed over training seeds.

    `domain` is a target, or "sources" for all of them together. The last column of `counts` are answers that are none
    of the classes: of a classifier that abstains, or has more outputs. `seen` is whether the model was trained on the
    samples: no | unknown | yes.
    """

    model: str
    domain: str
    classes: tuple[str, ...]
    counts: IntArray
    seen: str = "no"

    @property
    def samples(self) -> IntArray:
        """How many answers there are for each class, over all seeds."""
        total: IntArray = self.counts.sum(1)
        return total

    @property
    def shares(self) -> FloatArray:
        """The share of each answer among the samples of a class; 0 for a class without samples."""
        shares: FloatArray = self.counts / np.maximum(self.samples, 1)[:, None]
        return shares

    @property
    def accuracy(self) -> FloatArray:
        """The share of samples of each class that are right."""
        right: FloatArray = np.diag(self.shares)
        return right


def answers_by_class(
    evidence: Evidence, classes: Sequence[str], sources: Sequence[str], targets: Sequence[str]
) -> list[ClassAnswers]:
    """Of every model, on the sources together and on each target; of models whose answers were recorded."""
    found = []
    for part in evidence.where(probe="clean").by("model"):
        places = {"sources": [*sources], **{target: [target] for target in targets}}
        for name, domains in places.items():
            rows = [one for one in part if one.domain in domains and "label" in one and "prediction" in one]
            if rows and len(classes) > 1:
                counts, seen = _counts(rows, len(classes)), worst_seen(one.seen_in_training for one in rows)
                found.append(ClassAnswers(part[0].model, name, tuple(classes), counts, seen))
    return found


def _counts(rows: Sequence[Measurement], classes: int) -> IntArray:
    counts = np.zeros((classes, classes + 1), np.int64)
    for one in rows:
        answers = one["prediction"]
        known = (answers >= 0) & (answers < classes)
        np.add.at(counts, (one["label"], np.where(known, answers, classes)), 1)
    return counts
