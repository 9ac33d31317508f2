"""Whether a model is as sure as it is right: confidence beside accuracy, in bins and on average."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shiftproof.evidence import Evidence
from shiftproof.report.estimates import Repeats, estimate, repeats_in
from shiftproof.types import Estimate, FloatArray

__all__ = ["BINS", "Calibration", "calibration_error", "calibrations_of"]

BINS = 15


@dataclass(frozen=True, eq=False)
class Calibration:
    """The confidence of one model on one domain, and whether it was right."""

    rows: Repeats

    @property
    def model(self) -> str:
        """Model name."""
        return self.rows.model

    @property
    def domain(self) -> str:
        """Domain name."""
        return self.rows.domain

    @property
    def confidence(self) -> FloatArray:
        """Of every sample, seed after seed."""
        values: FloatArray = self.rows.column("confidence")
        return values

    @property
    def right(self) -> FloatArray:
        """Whether each of them was right: 1 or 0."""
        values: FloatArray = self.rows.column("correct").astype(np.float64)
        return values

    @cached_property
    def too_sure(self) -> Estimate:
        """The mean of confidence less being right, with its 95 % interval: above 0 if the model is too sure."""
        return estimate(
            self.rows.values(lambda one: one["confidence"] - one["correct"]), exact=False, limits=(-1.0, 1.0)
        )

    @cached_property
    def error(self) -> float:
        """The expected calibration error."""
        return calibration_error(self.confidence, self.right)

    def bins(self, count: int = 10) -> list[tuple[float, float, int]]:
        """(mean confidence, accuracy, samples) of bins of equal width that have any samples."""
        confidence, right = self.confidence, self.right
        place = np.minimum((confidence * count).astype(np.int64), count - 1)
        found = []
        for number in range(count):
            inside = place == number
            if inside.any():
                means = float(confidence[inside].mean()), float(right[inside].mean())
                found.append((*means, int(inside.sum())))
        return found


def calibration_error(confidence: FloatArray, right: FloatArray, bins: int = BINS) -> float:
    """Expected calibration error: the mean distance between confidence and accuracy over bins of equal width.

    Guo et al., "On calibration of modern neural networks" (2017), arXiv:1706.04599, equation 3. It is biased up: of a
    model that is perfectly calibrated it is above 0 on few samples.

    >>> calibration_error(np.array([0.9, 0.9]), np.array([1.0, 0.0])).__round__(3)
    0.4
    """
    place = np.minimum((confidence * bins).astype(np.int64), bins - 1)
    apart = np.bincount(place, weights=confidence - right, minlength=bins)
    return float(np.abs(apart).sum() / max(1, len(confidence)))


def calibrations_of(evidence: Evidence) -> list[Calibration]:
    """Of every model and domain whose clean measurement has a confidence."""
    clean = [one for one in evidence.where(probe="clean") if "confidence" in one and "correct" in one]
    return [Calibration(one) for one in repeats_in(clean)]
