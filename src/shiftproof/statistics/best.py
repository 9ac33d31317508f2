"""Which of several alternatives is best, and how sure that is: how often each wins when everything is drawn anew."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from shiftproof.errors import UsageError
from shiftproof.statistics.units import Units
from shiftproof.types import FloatArray

__all__ = ["covering_range", "win_shares"]

_CHUNK_CELLS = 4_000_000


def win_shares(
    values: Sequence[FloatArray], units: Units, generator: np.random.Generator, resamples: int = 2_000
) -> FloatArray:
    """How often each alternative has the largest mean in a bootstrap over samples and trainings, as parts of 1.

    Samples (or groups of them) are drawn once for all alternatives, which were measured on the same ones; trainings of
    each are drawn on their own, and how far they lie apart counts S / (S - 1) times in its variance, as in an unbiased
    estimate. Alternatives that are equally good share a win. Of a single training, only samples are drawn.

    Args:
        values: For each alternative, a number of every sample (N) in every training (S): arrays S x N.
        units: What each sample belongs to.
        generator: All draws come from it.
        resamples: How often everything is drawn anew.

    >>> right = np.array([[0.0, 1.0, 1.0, 1.0]])
    >>> win_shares([right, 0 * right], Units.of([1, 2, 3, 4]), np.random.default_rng(0)).round(2).tolist()
    [1.0, 0.0]
    """
    if not values or any(one.ndim != 2 or one.shape[1] != len(units) or not len(one) for one in values):
        raise UsageError("every alternative needs a number for each sample of each training")
    count, index = len(units.names), units.codes
    sizes = np.bincount(index, minlength=count).astype(np.float64)
    sums = [np.stack([np.bincount(index, row, count) for row in one]) for one in values]
    wins, step = np.zeros(len(values)), max(1, _CHUNK_CELLS // count)
    for start in range(0, resamples, step):
        drawn = min(step, resamples - start)
        times = generator.multinomial(count, np.full(count, 1 / count), size=drawn).astype(np.float64)
        means = np.stack([_mean_of_drawn(times @ one.T / (times @ sizes)[:, None], generator) for one in sums])
        # what differs by rounding alone is equal
        best = np.isclose(means, means.max(0), rtol=0, atol=1e-12)
        wins += (best / best.sum(0)).sum(1)
    shares: FloatArray = wins / resamples
    return shares


def _mean_of_drawn(by_training: FloatArray, generator: np.random.Generator) -> FloatArray:
    """The mean over trainings that are drawn anew, of R x S means; spread as wide as S trainings say they are."""
    trainings = by_training.shape[1]
    mean: FloatArray = by_training.mean(1)
    if trainings == 1:
        return mean
    picks = generator.integers(0, trainings, size=by_training.shape)
    drawn = np.take_along_axis(by_training, picks, 1).mean(1)
    spread: FloatArray = mean + np.sqrt(trainings / (trainings - 1)) * (drawn - mean)
    return spread


def covering_range(shares: ArrayLike, level: float = 0.95) -> tuple[int, int]:
    """The first and the last of ordered alternatives between which all but (1 - level) / 2 of the wins on either side
    lie.

    >>> covering_range([0.01, 0.3, 0.68, 0.01])
    (1, 2)
    """
    told, tail = np.asarray(shares, np.float64), (1 - level) / 2
    low = int(np.argmax(np.cumsum(told) > tail))
    high = len(told) - 1 - int(np.argmax(np.cumsum(told[::-1]) > tail))
    return low, high
