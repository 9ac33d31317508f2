"""A lower bound on the distance W1 of two domains, from samples without labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shiftproof.errors import UnknownName, UsageError
from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.statistics import bernstein_lower, betting_lower
from shiftproof.theory.confidence import check_level
from shiftproof.theory.critics import Critic, Judge
from shiftproof.theory.critics_linear import linear_critics
from shiftproof.theory.points import Folds, Points, check_points, deal, set_apart
from shiftproof.types import FloatArray

__all__ = ["Distance", "Fit", "Interval", "LinearFit", "difference_bound", "lower_distance", "one_sided"]

Interval = Literal["betting", "bernstein"]
"""How means are bounded. One is chosen before any value is seen; the better of both would be right too seldom."""
Fit = Callable[[Folds, int], list[Critic]]
"""Critics fitted to a fold by a seed; always as many and in one order, so that one can be chosen by its place."""
_SHARES = (1.0, 0.95, 0.8)
"""Shares of the values of a critic that clipping may leave as they are."""
_PADDING = 1.1


@dataclass(frozen=True, eq=False)
class Distance:
    """W1 of two domains is at least `lower`, with probability `level` over the samples of both.

    In `norm` and `units` of inputs as they are. `n` are the units of either domain that were judged, whose values are
    `reference_values` and `target_values` (clipped, one a unit); `allowance` is what rounding may have added.
    """

    lower: float
    level: float
    norm: str
    units: str
    judge: Judge
    n: tuple[int, int]
    interval: Interval
    reference_values: FloatArray
    target_values: FloatArray
    allowance: float

    @property
    def critic(self) -> str:
        """What kind of function tells the domains apart."""
        return self.judge.critic.title

    @property
    def difference(self) -> float:
        """The difference of means as it was measured, of which `lower` is the part that is beyond chance."""
        return float(self.target_values.mean() - self.reference_values.mean())


@dataclass(frozen=True)
class LinearFit:
    """Linear critics in a norm."""

    norm: str

    def __call__(self, fold: Folds, seed: int) -> list[Critic]:
        """One list of critics, fitted to a fold; nothing is random about them."""
        return list(linear_critics(fold.reference.inputs, fold.target.inputs, self.norm))


def lower_distance(
    reference: Points,
    target: Points,
    norm: str = "l2",
    *,
    units: str = "",
    level: float = 0.99,
    fits: Mapping[str, Fit] | None = None,
    interval: Interval = "betting",
    seed: int = 0,
) -> Distance:
    """A lower bound on W1(reference, target) in `norm` that holds with probability `level`; 0 says nothing.

    The units of both are dealt to two folds. Critics are fitted to one half of the first fold and chosen, with what
    they are clipped to, on its other half; the one that is chosen is fitted again to the whole first fold. On the
    second fold its means are bounded at (1 - level) / 2 each. A bound that holds is no proof that it is close: W1 may
    be much larger, and of nothing can it be said that it lies near.

    `fits` are the kinds of critics to choose from, by name; linear ones unless told. Whoever tries several seeds and
    reports the largest bound has no bound.
    """
    check_level(level, "level")
    if interval not in ("betting", "bernstein"):
        raise UnknownName("interval", str(interval), ["betting", "bernstein"])
    check_points(reference, target)
    reference, target = set_apart(reference, target)
    seed = checked_seed(seed)
    kinds = fits or {"linear": LinearFit(norm)}
    fitting, judging = deal(reference, target, seed, "shift folds")
    judge = _choose(kinds, fitting, level, seed)
    if judge.critic.norm != norm:
        raise UsageError(f"the critic is for distances in {judge.critic.norm}, not in {norm}")
    scores = _scores(judge, judging, seed, "judging")
    allowance = max(judge.critic.allowance(points.inputs) for points in judging)
    width = judge.high - judge.low
    bound = width * float(difference_bound(*scores, 1 - level, interval)) - 2 * allowance
    values = [judge.low + width * one for one in scores]
    sizes = (len(scores[0]), len(scores[1]))
    return Distance(max(0.0, bound), level, norm, units, judge, sizes, interval, values[0], values[1], allowance)


def difference_bound(reference: FloatArray, target: FloatArray, alpha: float, interval: Interval) -> FloatArray:
    """A lower bound on mean(target) - mean(reference), wrong with probability `alpha` at most.

    From independent scores in [0, 1] along the last axis; the two may have other lengths, and alpha is shared.
    """
    above = 1 - one_sided(1 - reference, alpha / 2, interval)
    return one_sided(target, alpha / 2, interval) - above


def one_sided(scores: FloatArray, alpha: float, interval: Interval) -> FloatArray:
    """A lower bound on the mean of independent scores in [0, 1] along the last axis."""
    if interval == "betting":
        return betting_lower(scores, alpha)
    return bernstein_lower(scores.mean(-1), scores.var(-1, ddof=1), scores.shape[-1], alpha)


def _choose(kinds: Mapping[str, Fit], fold: Folds, level: float, seed: int) -> Judge:
    """The critic, and what it is clipped to, that promises the largest bound: by the first fold alone."""
    fitted_on, tried_on = deal(*fold, seed, "shift choice")
    best, chosen = -np.inf, None
    for kind, fit in kinds.items():
        for place, critic in enumerate(fit(fitted_on, seed)):
            values = [critic.values(points.inputs, _noise(seed, "choice", points)) for points in tried_on]
            for low, high in _clippings(critic, np.concatenate(values)):
                judge = Judge(critic, low, high)
                promise = _promise(*_scores(judge, tried_on, seed, "choice"), 1 - level) * (high - low)
                if promise > best:
                    best, chosen = promise, (kind, place, low, high)
    assert chosen is not None
    kind, place, low, high = chosen
    return Judge(kinds[kind](fold, seed)[place], low, high)


def _promise(reference: FloatArray, target: FloatArray, alpha: float) -> float:
    """About what twice as many scores like these would prove: by Bernstein's inequality with their own variances."""
    log_term = np.log(2 / alpha)
    slack = 0.0
    for scores in (reference, target):
        count = 2 * len(scores)
        slack += np.sqrt(2 * scores.var(ddof=1) * log_term / count) + log_term / (3 * count)
    return float(target.mean() - reference.mean() - slack)


def _clippings(critic: Critic, values: FloatArray) -> list[tuple[float, float]]:
    """Intervals that hold most of the values, with some room for the critic that is fitted again."""
    if critic.range is not None:
        return [critic.range]
    found = []
    for share in _SHARES:
        low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2])
        half = max(_PADDING * (high - low) / 2, 1e-9)
        found.append((float((low + high) / 2 - half), float((low + high) / 2 + half)))
    return found


def _scores(judge: Judge, fold: Folds, seed: int, purpose: str) -> tuple[FloatArray, FloatArray]:
    reference, target = (judge.scores(points, _noise(seed, purpose, points), seed) for points in fold)
    return reference, target


def _noise(seed: int, purpose: str, points: Points) -> np.random.Generator:
    return numpy_generator(seed, "noise of critics", purpose, points.name)
