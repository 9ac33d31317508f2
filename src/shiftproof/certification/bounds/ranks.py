"""Which order statistic bounds the median of every input within a radius."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from shiftproof.statistics import upper_bound
from shiftproof.types import FloatArray, IntArray

__all__ = ["order_radius", "smallest_rank"]


def order_radius(k: IntArray, samples: int, sigma: float, level: float) -> FloatArray:
    """How far an input may move so that its median stays between the k-th smallest and the k-th largest sample.

    Moving by r under noise sigma turns a median into a quantile between Phi(-r/sigma) and Phi(r/sigma); the k-th sample
    is below the first with probability 1 - `level` as long as Phi(-r/sigma) is no smaller than the Clopper-Pearson
    bound for k - 1 of all samples. Negative where not even the median at the input itself is bounded.

    >>> order_radius(np.array([1, 40]), 500, 0.1, 1e-4 / 1280).round(4)
    array([0.1849, 0.1004])
    """
    return np.asarray(-sigma * ndtri(upper_bound(np.asarray(k) - 1, samples, level)))


def smallest_rank(holds: Callable[[IntArray], NDArray[np.bool_]], last: int, images: int) -> IntArray:
    """The smallest of the ranks 1 ... `last` that holds, image by image; 0 where none does.

    `holds` takes a rank for each image. What holds for a rank holds for all larger ones, whose boxes lie inside.
    """
    low, high = np.zeros(images, np.int64), np.full(images, last)
    held = holds(high)
    while np.any(high - low > 1):
        middle = np.maximum((low + high) // 2, 1)
        wins = holds(middle)
        low, high = np.where(wins, low, middle), np.where(wins, middle, high)
    return np.where(held, high, 0)
