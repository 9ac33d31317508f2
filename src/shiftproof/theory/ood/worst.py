"""The worst mean loss over a ball of distributions, where it is known exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.theory.ood.checks import Norm, at_least_zero, check_norm
from shiftproof.types import FloatArray

__all__ = ["worst_mean", "worst_mean_linear"]


def worst_mean(suprema: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The largest mean of f over all distributions within W_infinity distance r of a finite sample.

    `suprema` (N) holds, for each sample, the largest f within distance r of it; `weights` (N, of sum 1) are equal
    unless told::

        sup over W_infinity(P, Q) <= r of E_Q f  =  E_P sup over |d| <= r of f(x + d)

    W_infinity is the essential supremum of how far mass moves, not its mean: half the mass moved by 1 is a distance of
    1, not of 0.5. For W_2 the right-hand side at radius r is a lower bound and no upper one.

    Lemma 1 of "Improved OOD Generalization via Adversarial Training and Pre-training" (2021, arXiv:2105.11144).

    >>> worst_mean([0.1, 0.3])
    0.2
    """
    values = _vector(suprema, "suprema")
    return float(values @ _weights(weights, len(values)))


def worst_mean_linear(
    slope: ArrayLike, inputs: ArrayLike, r: float, norm: Norm = "linf", weights: ArrayLike | None = None
) -> float:
    """The largest mean of slope . x over all distributions within `r` of a finite sample of inputs (N x d)::

        E_P[slope . x] + r |slope|_1    within W_infinity, linf
        E_P[slope . x] + r |slope|_2    within W_2, l2

    Moving all mass along one direction is the worst; by Hölder's inequality nothing is worse. It is exact where inputs
    may take any real values, and an upper bound where they may not leave a box.

    >>> round(worst_mean_linear([1.0, -2.0, 0.5], [[0.0, 0.0, 0.0]], r=0.1), 4)
    0.35
    >>> round(worst_mean_linear([1.0, -2.0, 0.5], [[0.0, 0.0, 0.0]], r=0.1, norm="l2"), 4)
    0.2291
    """
    direction, points = _vector(slope, "slope"), np.asarray(inputs, np.float64)
    if points.ndim != 2 or not len(points) or points.shape[1] != len(direction) or not np.isfinite(points).all():
        raise UsageError(
            f"inputs have shape {points.shape}; give finite numbers, samples x {len(direction)}, to match the slope"
        )
    dual = 1 if check_norm(norm) == "linf" else 2
    mean = float(points @ direction @ _weights(weights, len(points)))
    return mean + at_least_zero(r, "r") * float(np.linalg.norm(direction, dual))


def _vector(values: ArrayLike, name: str) -> FloatArray:
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} are {values!r}; give a list of numbers, one of each sample") from error
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise UsageError(f"{name} have shape {array.shape}; give a list of at least one finite number, each a sample's")
    return array


def _weights(weights: ArrayLike | None, number: int) -> FloatArray:
    if weights is None:
        return np.full(number, 1 / number)
    mass = np.asarray(weights, np.float64)
    if mass.shape != (number,) or not bool(np.all(mass >= 0)) or abs(mass.sum() - 1) > 1e-9:
        raise UsageError(f"weights are {weights!r}; give {number} numbers of at least 0 that add up to 1")
    return mass
