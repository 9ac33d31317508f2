"""All measures of how far apart two domains are, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shiftproof.errors import UnknownName, UsageError
from shiftproof.theory.distances.domain_classifier import proxy_a_distance, total_variation_bound
from shiftproof.theory.distances.frechet import extrapolated_frechet_distance, frechet_distance
from shiftproof.theory.distances.kernel import kernel_distance, same_law_test
from shiftproof.theory.distances.lower_bound import lower_distance
from shiftproof.theory.distances.pair import DomainDistance
from shiftproof.theory.distances.wasserstein import exact_wasserstein, sliced_wasserstein
from shiftproof.theory.points import Points

__all__ = ["MEASURES", "Measure", "check_measures", "measure_distance"]


@dataclass(frozen=True)
class Measure:
    """A measure: its heading, what it says in a few words, and whether it is a distance (a p-value is none)."""

    title: str
    about: str
    compute: Callable[[Points, Points, int], DomainDistance]
    is_distance: bool = True


def _w1_bound(reference: Points, target: Points, seed: int) -> DomainDistance:
    found = lower_distance(reference, target, "l2", seed=seed)
    return DomainDistance("w1-bound", found.lower, found.n, proven=True, level=found.level)


MEASURES: dict[str, Measure] = {
    "frechet": Measure("Frechet (FID)", "means and covariances", lambda x, y, _: frechet_distance(x, y)),
    "frechet-extrapolated": Measure(
        "Frechet, n to infinity", "the same without its excess", lambda x, y, _: extrapolated_frechet_distance(x, y)
    ),
    "kernel": Measure("kernel (KID)", "without bias, may be below 0", lambda x, y, _: kernel_distance(x, y)),
    "sliced-wasserstein": Measure("sliced W1", "mean over directions", lambda x, y, _: sliced_wasserstein(x, y)),
    "wasserstein": Measure("W1 of the samples", "exact, too large for few", lambda x, y, _: exact_wasserstein(x, y)),
    "a-distance": Measure(
        "A-distance", "0 to 2, by a linear classifier", lambda x, y, seed: proxy_a_distance(x, y, seed=seed)
    ),
    "tv-bound": Measure("TV, at least", "proven, 99 %", lambda x, y, seed: total_variation_bound(x, y, seed=seed)),
    "w1-bound": Measure("W1, at least", "proven, 99 %", _w1_bound),
    "same-law": Measure("same law?", "p-value", lambda x, y, seed: same_law_test(x, y, seed=seed), is_distance=False),
}
"""In the order in which they are shown."""


OTHER_NAMES = {"fid": "frechet", "kid": "kernel", "mmd": "kernel"}
"""Names under which measures are known as well."""


def check_measures(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once; refused with a suggestion where there is no such measure."""
    names = [OTHER_NAMES.get(name.lower(), name) for name in names]
    for name in names:
        if name not in MEASURES:
            raise UnknownName("distance", name, MEASURES)
    if not names:
        raise UsageError(f"name at least one distance: {', '.join(MEASURES)}")
    return tuple(dict.fromkeys(names))


def measure_distance(name: str, reference: Points, target: Points, seed: int = 0) -> DomainDistance:
    """One measure of two domains."""
    (known,) = check_measures([name])
    return MEASURES[known].compute(reference, target, seed)
