"""How far what a classifier computes may move before its class changes, and the radius of inputs that follows."""

from __future__ import annotations

import numpy as np

from shiftproof.certification.bounds.representations import Encoded, Parts, diameter, head_rounding
from shiftproof.perturbations.norms import BETWEEN_TWO, DUALS, Norm
from shiftproof.types import FloatArray, IntArray

__all__ = ["ROUNDING_WORDS", "margins", "over_constant", "safe_margins", "useless"]

FARTHEST = 1e6
"""The radius of a classifier that never changes its mind; a number, so that averages stay numbers."""

USELESS = 100.0
ROUNDING_WORDS = (
    "That holds in exact arithmetic; for rounding in float32 an allowance is taken off, which is measured, not proven."
)


def margins(
    logits: FloatArray, weight: FloatArray | None, norm: str, slack: FloatArray | None = None
) -> tuple[IntArray, FloatArray]:
    """The winning class of each row (N x K), and how far the values behind the logits may move in `norm` to keep it.

    With the weight (K x D) of a linear head that is the exact distance to the nearest decision boundary; without one
    the logits themselves move. `slack` (N x K) is what each logit may be off by.

    >>> winner, margin = margins(np.array([[0.9, 0.3]]), np.eye(2), "l2")
    >>> int(winner[0]), float(margin[0].round(6))
    (0, 0.424264)
    """
    winner = logits.argmax(1)
    rows = np.arange(len(logits))
    gaps = logits[rows, winner][:, None] - logits
    if slack is not None:
        gaps = gaps - slack - slack[rows, winner][:, None]
    if weight is None:
        slopes = np.full((len(logits), logits.shape[1]), BETWEEN_TWO[norm])
    else:
        between = np.linalg.norm(weight[:, None] - weight[None], DUALS[norm], axis=2)
        slopes = between[winner]
    # classes whose rows are equal can't change places, whatever happens to the input
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(slopes > 0, gaps / slopes, np.where(gaps > 0, FARTHEST, 0.0))
    distances[rows, winner] = FARTHEST
    return winner, np.minimum(distances.min(1), FARTHEST)


def safe_margins(
    parts: Parts, encoded: Encoded, shape: tuple[int, ...], norm: Norm
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Classes, their margins behind the body less what rounding may take, and the radii of inputs that follow."""
    farthest = diameter(shape, norm)
    logits = parts.logits(encoded.values)
    winner, margin = margins(logits, parts.weight, norm)
    if parts.weight is not None:
        slack = head_rounding(parts, encoded.values, np.minimum(margin, parts.constant * farthest), norm)
        margin = margins(logits, parts.weight, norm, slack)[1]
    # rounding counts at the input and again wherever it moves to; what moves nothing can't be moved over a boundary
    margin = np.minimum(margin - 2 * encoded.rounding, parts.constant * farthest)
    if parts.constant > 0:
        return winner, margin, margin / parts.constant
    return winner, margin, np.where(margin >= 0, farthest, 0.0)


def over_constant(margin: FloatArray, constant: float | None, radius: FloatArray) -> FloatArray:
    """Margin over constant, no smaller than 0; of a body that moves nothing, the radius as it is."""
    if constant is None:
        return np.zeros(len(margin))
    return np.maximum(margin / constant, 0.0) if constant > 0 else np.where(margin >= 0, radius, 0.0)


def useless(constant: float) -> str:
    """A warning for constants that leave next to nothing of a margin."""
    return ", which leaves radii too small to be of use" if constant > USELESS else ""
