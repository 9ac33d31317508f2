"""The number of cells of small diameter that a support is cut into, as a power of ten."""

from __future__ import annotations

import math
from typing import Literal

from shiftproof.errors import UsageError, suggestion
from shiftproof.theory.ood.checks import Norm, check_norm, positive, whole

__all__ = ["COVERS", "Cover", "log10_cells"]

Cover = Literal["grid", "maurey", "document"]
COVERS: tuple[Cover, ...] = ("grid", "maurey", "document")
"""The ways to count; the last is the published one, which does not cover."""

_ROUNDING = 1e-12


def log10_cells(
    dimensions: int,
    r: float,
    cover: Cover = "grid",
    *,
    norm: Norm = "linf",
    eps: float | None = None,
    classes: int = 1,
    side: float = 1.0,
    l1_diameter: float | None = None,
) -> float:
    """log10 of the number of cells that cut the cube [0, side]^d and `classes` labels into pieces of small diameter.

    The diameter is at most `r` in the linf norm or, for norm 'l2', at most r / `eps` in the l2 norm; h is that number::

        grid      ceil(side / h)^d   (linf)     ceil(side sqrt(d) / h)^d   (l2)
        maurey    (2 d)^ceil(4 D^2 / h^2)
        document  (2 d)^(2 D / h^2 + 1)

    D is the l1-diameter of the support, d * side unless told. 'maurey' is Maurey's empirical method for any support
    that fits into an l1 ball of radius D: averages of k vertices come within D / sqrt(k) of every point, and cells of
    diameter h are balls of radius h / 2. 'document' is the count as published in "Improved OOD Generalization via
    Adversarial Training and Pre-training" (2021, arXiv:2105.11144). It changes with the unit of length and is too
    small for large supports, so that no bound here is built on it.

    Reference: Vershynin, High-Dimensional Probability (2018), theorems 0.0.2 and 0.0.4.

    Args:
        eps: The input-robustness of theorem 2; for norm 'l2' alone.
        classes: Labels; every cell of the inputs counts once for each.

    >>> log10_cells(2, 0.1)
    2.0
    >>> round(log10_cells(3072, 2 / 255)), f"{log10_cells(3072, 2 / 255, 'document'):.3g}"
    (6473, '3.78e+08')
    """
    d, length = whole(dimensions, "dimensions"), positive(side, "side")
    size = _diameter(r, check_norm(norm), eps)
    reach = d * length if l1_diameter is None else positive(l1_diameter, "l1_diameter")
    labels = math.log10(whole(classes, "classes"))
    if cover == "grid":
        return d * _log10_pieces(length / size * (math.sqrt(d) if norm == "l2" else 1.0)) + labels
    if cover == "maurey":
        exponent = 4 * (reach / size) * (reach / size)
        vertices = math.ceil(exponent) if math.isfinite(exponent) else math.inf
        return vertices * math.log10(2 * d) + labels
    if cover == "document":
        # divided twice, because the square of a small diameter may be 0
        return (2 * reach / size / size + 1) * math.log10(2 * d) + labels
    raise UsageError(f"unknown cover {cover!r}. {suggestion(str(cover), COVERS)}")


def _diameter(r: float, norm: Norm, eps: float | None) -> float:
    radius = positive(r, "r")
    if norm == "linf":
        if eps is not None:
            raise UsageError(f"eps is {eps!r}, but cells of linf diameter r do not depend on it; leave it out")
        return radius
    if eps is None:
        raise UsageError("norm 'l2' needs eps, because its cells have l2-diameter r / eps; give eps, such as eps=0.1")
    return radius / positive(eps, "eps")


def _log10_pieces(pieces: float) -> float:
    """log10 of the ceiling; 0.9 / 0.3 is a little more than 3 and means 3."""
    if not math.isfinite(pieces):
        return math.inf
    return math.log10(max(1, math.ceil(pieces * (1 - _ROUNDING))))
