"""At most so many samples of every patient or slide: many groups at the cost of few samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shiftproof.domains.shortcuts import draws
from shiftproof.types import IntArray

__all__ = ["few_of_each"]


def few_of_each(construction: str, groups: Sequence[str], ids: NDArray[Any] | Sequence[str], most: int) -> IntArray:
    """Indices of at most `most` samples of every group, sorted; which ones depends on the construction and the ids.

    A larger number takes the same samples and more.

    >>> few_of_each("any", ["p", "p", "q", "p"], ["a", "b", "c", "d"], 2).tolist()
    [1, 2, 3]
    """
    _, members = np.unique(np.asarray(groups), return_inverse=True)
    order = np.lexsort((draws(construction, "few of each", ids), members))
    counts = np.bincount(members)
    ranks = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[ranks < most])
