"""The Frechet distance of two domains, known as FID where features are those of an ImageNet network."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr, svdvals

from shiftproof.errors import UsageError
from shiftproof.rng import numpy_generator
from shiftproof.theory.distances.pair import FEW_BLOCKS, DomainDistance, Pair, Side, standard_error
from shiftproof.types import FloatArray

__all__ = ["extrapolated_frechet_distance", "frechet_distance"]


def frechet_distance(reference: Side, target: Side) -> DomainDistance:
    """The Frechet distance of normal laws with the two samples' means and covariances.

    |m1 - m2|^2 + tr(C1 + C2 - 2 (C1 C2)^(1/2)). It looks at nothing but means and covariances, and is too large for few
    samples, by about (number of features) / n: compare only distances of the same n, or take `kernel_distance`.
    Reference: Heusel et al., GANs trained by a two time-scale update rule, 2017 (arXiv 1706.08500).

    >>> generator = np.random.default_rng(0)
    >>> found = frechet_distance(generator.normal(0, 1, (2000, 2)), generator.normal([1, 0], [2, 1], (2000, 2)))
    >>> abs(found.value - 2) < 3 * found.standard_error  # 1 for the means, 1 for the first standard deviation
    True
    """
    pair = Pair.of(reference, target)
    return DomainDistance.estimate("frechet", _frechet(pair), pair, standard_error(pair, _frechet))


def extrapolated_frechet_distance(reference: Side, target: Side) -> DomainDistance:
    """The Frechet distance that infinitely many samples would have, if its excess is in proportion to 1 / n.

    Twice the distance of all samples less the mean distance of their halves: the line through both at 1 / n = 0. It can
    be below 0. The excess is in such a proportion only if there are more samples than features; it is refused
    otherwise. Reference: Chong and Forsyth, Effectively unbiased FID, 2020 (arXiv 1911.07023), with two sizes.
    """
    pair = Pair.of(reference, target)
    if (few := min(len(pair.x), len(pair.y))) <= (features := pair.x.shape[1]):
        raise UsageError(
            f"a Frechet distance of {few} samples with {features:,} features can't be extrapolated: its excess falls "
            "with 1 / n only beyond as many samples as features"
        )
    statistic = partial(_extrapolated, half=_halves(pair))
    error = standard_error(pair, statistic, FEW_BLOCKS)
    return DomainDistance.estimate("frechet-extrapolated", statistic(pair), pair, error, least=-np.inf)


def _frechet(pair: Pair) -> float:
    means, roots = zip(*(_moments(side) for side in (pair.x, pair.y)), strict=True)
    squares = sum(float((root**2).sum()) for root in roots)
    # with C = R'R, the eigenvalues of C1 C2 are the squared singular values of R1 R2'
    between = float(svdvals(roots[0] @ roots[1].T, check_finite=False).sum())
    return max(0.0, float(((means[0] - means[1]) ** 2).sum()) + squares - 2 * between)


def _moments(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean, and a matrix R with as few rows as there can be, of which R'R is the covariance."""
    mean = values.mean(0)
    root = (values - mean) / np.sqrt(len(values) - 1)
    if len(root) > root.shape[1]:
        (root,) = qr(root, mode="r", check_finite=False)
        root = root[: values.shape[1]]
    return mean, root


def _halves(pair: Pair) -> NDArray[np.bool_]:
    """Which half each unit is in, by its number: at random, and of every stratum as many as can be."""
    half = np.zeros(1 + int(max(pair.units_x.max(), pair.units_y.max())), bool)
    for number, units in enumerate(pair.strata()):
        half[numpy_generator(0, "halves of a frechet distance", number, len(units)).permutation(units)[::2]] = True
    return half


def _extrapolated(pair: Pair, half: NDArray[np.bool_]) -> float:
    parts = [pair.without(np.flatnonzero(half == side)) for side in (False, True)]
    return 2 * _frechet(pair) - float(np.mean([_frechet(part) for part in parts]))
