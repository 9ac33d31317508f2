"""How the error of one certificate is shared out, and the bounds on probabilities that follow from counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from shiftproof.statistics import sequence_upper, upper_bound
from shiftproof.types import FloatArray, IntArray

__all__ = ["EXACT_N", "STOPPED", "Bounds", "Levels", "bounds", "budget"]

EXACT_N: Literal["clopper-pearson"] = "clopper-pearson"
"""The bound of an image that was sampled the number of times that was fixed in advance."""
STOPPED: Literal["sequence"] = "sequence"
"""The bound of an image that stopped before, for whatever reason: it holds at all times at once."""

EARLY_SHARE = 0.1
"""Of alpha, for stopping early; the rest is for images that never do."""


@dataclass(frozen=True)
class Levels:
    """What of alpha is spent on which bound: of the class and of its runner-up, at the end and on the way there.

    The four sum to alpha. `final_rival` and `early_rival` are 0 where the runner-up is not bounded on its own.
    """

    final: float
    final_rival: float = 0.0
    early: float = 0.0
    early_rival: float = 0.0

    @property
    def alpha(self) -> float:
        """The error in all."""
        return self.final + self.final_rival + self.early + self.early_rival


def budget(alpha: float, classes: int, *, runner_up: bool, stops_early: bool) -> Levels:
    """The shares of `alpha`; two classes are never split, because one's probability is all that the other lacks.

    >>> budget(0.001, 10, runner_up=True, stops_early=False)
    Levels(final=0.0005, final_rival=0.0005, early=0.0, early_rival=0.0)
    """
    early = EARLY_SHARE * alpha if stops_early else 0.0
    final = alpha - early
    if runner_up and classes > 2:
        return Levels(final / 2, final / 2, early / 2, early / 2)
    return Levels(final, 0.0, early, 0.0)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Upper bounds on what is bad, sample by sample: `miss` of not hitting the class, `rival` of the runner-up.

    Probabilities near 1 are kept as their complements, which floating point resolves. `kind` says which bound.
    """

    miss: FloatArray
    rival: FloatArray
    kind: NDArray[np.str_]


def bounds(count: IntArray, rival_count: IntArray, drawn: IntArray, n: int, levels: Levels) -> Bounds:
    """Bounds from the votes: Clopper-Pearson where all `n` were drawn, the sequence's where sampling stopped before.

    The largest count of any other class stands for the runner-up: the true runner-up is one fixed class, its count is
    no larger, and the bound grows with the count, so that nothing needs to be shared between classes.
    """
    full = drawn >= n
    miss, rival = np.ones(len(drawn)), np.ones(len(drawn))
    some = ~full & (drawn > 0) & (levels.early > 0)
    if full.any():
        miss[full] = upper_bound(n - count[full], n, levels.final)
        if levels.final_rival:
            rival[full] = upper_bound(rival_count[full], n, levels.final_rival)
    if some.any():
        miss[some] = sequence_upper((drawn - count)[some], drawn[some], levels.early)
        if levels.early_rival:
            rival[some] = sequence_upper(rival_count[some], drawn[some], levels.early_rival)
    return Bounds(miss, np.minimum(rival, miss), np.where(full, EXACT_N, STOPPED))
