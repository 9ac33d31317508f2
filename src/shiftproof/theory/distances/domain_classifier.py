"""What a classifier that tells two domains apart says about their distance."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from shiftproof.rng import checked_seed, numpy_generator
from shiftproof.theory.confidence import check_level
from shiftproof.theory.distances.lower_bound import difference_bound
from shiftproof.theory.distances.pair import DomainDistance, Pair, Side
from shiftproof.types import FloatArray, IntArray

__all__ = ["proxy_a_distance", "total_variation_bound"]

FOLDS = 5


def proxy_a_distance(reference: Side, target: Side, *, seed: int = 0) -> DomainDistance:
    """2 (1 - 2 e), where e is the error of a linear classifier that tells the domains apart, on held-out samples.

    0 where it can only guess, 2 where it is never wrong; the two domains count the same, whatever their sizes.
    Cross-validated over units. An estimate from below of what any linear classifier could do. Reference: Ben-David et
    al., A theory of learning from different domains, 2010 (doi 10.1007/s10994-009-5152-4).

    >>> generator = np.random.default_rng(0)
    >>> far = proxy_a_distance(generator.normal(0, 1, (200, 3)), generator.normal(9, 1, (200, 3)))
    >>> far.value
    2.0
    """
    pair = Pair.of(reference, target)
    fold = _folds(pair, FOLDS, checked_seed(seed))
    wrong, sides = [np.empty(len(pair.x)), np.empty(len(pair.y))], (pair.units_x, pair.units_y)
    for number in range(FOLDS):
        inside = [fold[units] == number for units in sides]
        classifier = _fit(pair.x[~inside[0]], pair.y[~inside[1]])
        for side, values in enumerate((pair.x, pair.y)):
            if inside[side].any():
                wrong[side][inside[side]] = classifier.predict(values[inside[side]]) != side
    known = [(_unit_means(errors, units), np.unique(units)) for errors, units in zip(wrong, sides, strict=True)]
    error = float(np.mean([part.mean() for part, _ in known]))
    # what each unit adds to the mean error; one that both domains hold adds to both
    added = np.zeros(len(fold))
    for part, units in known:
        added[units] += (part - part.mean()) / (2 * np.sqrt(len(part) * (len(part) - 1)))
    spread = float(np.sqrt((added**2).sum()))
    # an error above one half is chance, and no distance below 0
    return DomainDistance.estimate("a-distance", max(0.0, 2 - 4 * error), pair, 4 * spread, most=2.0)


def total_variation_bound(reference: Side, target: Side, *, level: float = 0.99, seed: int = 0) -> DomainDistance:
    """A lower bound on the total variation distance that holds with probability `level`; 0 says nothing.

    A linear classifier is fitted to half of the units; TV is at least the difference of how often it says "target" on
    either domain, of which the part beyond chance is proven on the other half (betting intervals). TV is sup_A
    |P(A) - Q(A)|, from 0 to 1, of the features and so of the inputs, too.
    """
    check_level(level, "level")
    pair = Pair.of(reference, target)
    fold = _folds(pair, 2, checked_seed(seed))
    fits = [fold[units] == 0 for units in (pair.units_x, pair.units_y)]
    classifier = _fit(pair.x[fits[0]], pair.y[fits[1]])
    scores = [
        _unit_means(classifier.predict(values[~mask]).astype(np.float64), units[~mask])
        for values, units, mask in zip((pair.x, pair.y), (pair.units_x, pair.units_y), fits, strict=True)
    ]
    # betting looks at one score after the other: their order must not depend on them
    generator = numpy_generator(seed, "order of units")
    shuffled = [generator.permutation(score) for score in scores]
    bound = float(difference_bound(shuffled[0], shuffled[1], 1 - level, "betting"))
    sizes = (len(scores[0]), len(scores[1]))
    return DomainDistance("tv-bound", max(0.0, bound), sizes, proven=True, level=level)


def _fit(x: FloatArray, y: FloatArray) -> Pipeline:
    """1 for the second domain: Fisher's discriminant, shrunk by as much as there are features."""
    made = make_pipeline(StandardScaler(), RidgeClassifier(x.shape[1], class_weight="balanced"))
    return made.fit(np.concatenate([x, y]), np.repeat([0, 1], [len(x), len(y)]))


def _folds(pair: Pair, count: int, seed: int) -> IntArray:
    """The fold of every unit, by its number; units of x, of y and of both are dealt evenly."""
    fold = np.zeros(1 + int(max(pair.units_x.max(), pair.units_y.max())), np.int64)
    for number, units in enumerate(pair.strata()):
        order = numpy_generator(seed, "folds of a domain classifier", number).permutation(units)
        fold[order] = np.arange(len(order)) % count
    return fold


def _unit_means(values: FloatArray, units: IntArray) -> FloatArray:
    _, places, counts = np.unique(units, return_inverse=True, return_counts=True)
    return np.bincount(places, values) / counts
