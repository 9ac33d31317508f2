"""Right answers of a measurement with several draws of noise on each sample."""

from __future__ import annotations

import numpy as np

from shiftproof.evidence import Measurement
from shiftproof.types import FloatArray

__all__ = ["draws_of", "right_by_draw", "share_right"]


def draws_of(one: Measurement) -> list[str]:
    """The columns of answers, one a draw; a single one of probes that do not draw several times."""
    asked = one.fact("asked") if one.probe == "noisy" else None
    count = int(asked.get("draws", 1)) if asked else 1
    return ["prediction", *(f"prediction_{k}" for k in range(2, count + 1))]


def right_by_draw(one: Measurement) -> FloatArray:
    """Whether each answer is right (draws x samples)."""
    return np.stack([one[name] == one["label"] for name in draws_of(one)]).astype(np.float64)


def share_right(one: Measurement) -> FloatArray:
    """For each sample, the share of draws under which the answer is right."""
    share: FloatArray = right_by_draw(one).mean(0)
    return share
