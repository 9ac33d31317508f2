"""Estimates with intervals: the one place of a report that knows of several training seeds.

A model that was trained with several seeds has several measurements of one domain and setting, which differ in the fact
`train_seed`. `repeats_in` puts them together, `Values` are what they measured, and `estimate`, `gap` and
`ratio_difference` make numbers with intervals of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shiftproof.errors import UsageError
from shiftproof.evidence import Evidence, Measurement, metrics, worst_seen
from shiftproof.statistics import Sample, bootstrap_ratios, over_seeds, resample_mean
from shiftproof.statistics.units import Units
from shiftproof.types import Estimate, FloatArray

__all__ = [
    "TRAIN_SEED",
    "OverDomains",
    "Repeats",
    "SeedValues",
    "Values",
    "estimate",
    "gap",
    "one_repeat",
    "ratio_difference",
    "repeats_in",
]

TRAIN_SEED = "train_seed"
"""The fact in which measurements of one model, domain and setting may differ; absent where there is one seed."""


@dataclass(frozen=True, eq=False)
class SeedValues:
    """The numbers of the samples of one measurement, computed from it whenever they are asked for."""

    measurement: Measurement
    numbers: Callable[[], ArrayLike]

    def __len__(self) -> int:
        return len(self.measurement)

    @property
    def values(self) -> FloatArray:
        """One for each sample."""
        return np.asarray(self.numbers(), np.float64)

    @property
    def units(self) -> Units:
        """What a bootstrap may not tear apart."""
        return self.measurement.units_of


@dataclass(frozen=True, eq=False)
class Values:
    """One number for every sample of a domain, for each training seed; samples stand in the same order.

    A report has more of these than fit into memory: nothing is kept but figures of all samples.
    """

    by_seed: tuple[SeedValues, ...]

    @property
    def averaged(self) -> Sample:
        """The mean over seeds of each sample's number."""
        values = [one.values for one in self.by_seed]
        return Sample(values[0] if len(values) == 1 else np.mean(values, axis=0), self.by_seed[0].units)

    @cached_property
    def per_seed(self) -> FloatArray:
        """The mean over samples, for each seed."""
        return np.array([one.values.mean() for one in self.by_seed])

    @property
    def mean(self) -> float:
        """The mean over samples and seeds."""
        return float(self.per_seed.mean())

    @cached_property
    def separate(self) -> bool:
        """Whether every number is 0 or 1, and no two samples belong to one unit."""
        binary = all(bool(((values == 0) | (values == 1)).all()) for values in (one.values for one in self.by_seed))
        return binary and self.by_seed[0].units.separate

    @property
    def samples(self) -> list[Sample]:
        """What is drawn anew: each sample's number, averaged over seeds."""
        return [self.averaged]

    @property
    def greatest(self) -> float:
        """The largest number of any sample."""
        return max(float(one.values.max()) for one in self.by_seed)

    @property
    def fewest_units(self) -> int:
        """Samples, or groups of them."""
        return len(self.by_seed[0].units.names)


@dataclass(frozen=True, eq=False)
class OverDomains:
    """The mean of several domains' `Values`, each domain weighing the same however many samples it has."""

    parts: tuple[Values, ...]

    @property
    def by_seed(self) -> tuple[SeedValues, ...]:
        """Those of the first domain: all have the same seeds."""
        return self.parts[0].by_seed

    @cached_property
    def per_seed(self) -> FloatArray:
        """The mean over domains of their means, for each seed."""
        return np.mean([one.per_seed for one in self.parts], axis=0, dtype=np.float64)  # type: ignore[no-any-return]

    @property
    def separate(self) -> bool:
        """Not: a mean of several shares is no share of samples."""
        return False

    @property
    def samples(self) -> list[Sample]:
        """What is drawn anew, domain by domain."""
        return [one.averaged for one in self.parts]

    @property
    def greatest(self) -> float:
        """The largest number of any sample."""
        return max(one.greatest for one in self.parts)

    @property
    def fewest_units(self) -> int:
        """Samples, or groups of them, of the domain with the fewest."""
        return min(one.fewest_units for one in self.parts)


@dataclass(frozen=True, eq=False)
class Repeats:
    """Measurements of one model, domain and setting that differ in nothing but the training seed."""

    measurements: tuple[Measurement, ...]

    @property
    def first(self) -> Measurement:
        """One of them, for the facts that all share."""
        return self.measurements[0]

    @property
    def model(self) -> str:
        """Model name."""
        return self.first.model

    @property
    def domain(self) -> str:
        """Domain name."""
        return self.first.domain

    @property
    def grouped(self) -> bool:
        """Whether samples belong to groups."""
        return self.first.grouped

    @property
    def seen_in_training(self) -> str:
        """no | unknown | yes: the worst that is known of any seed's model."""
        return worst_seen(one.seen_in_training for one in self.measurements)

    def fact(self, name: str) -> Any:
        """A fact that all share."""
        return self.first.fact(name)

    def column(self, name: str) -> NDArray[Any]:
        """A column of all seeds, one seed after the other."""
        parts = [one[name] for one in self.measurements]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def values(self, of: str | Callable[[Measurement], ArrayLike] = "correct") -> Values:
        """A column as numbers, or what a function makes of each measurement."""
        take = (lambda one: one[of]) if isinstance(of, str) else of
        return Values(tuple(SeedValues(one, partial(take, one)) for one in self.measurements))

    def pairs(self, other: Repeats) -> list[tuple[Measurement, Measurement]]:
        """Measurements of the same training seed, of this and of another setting."""
        by_seed = {one.fact(TRAIN_SEED): one for one in other.measurements}
        return [(one, by_seed[seed]) for one in self.measurements if (seed := one.fact(TRAIN_SEED)) in by_seed]


def repeats_in(evidence: Iterable[Measurement]) -> list[Repeats]:
    """The measurements of each model, domain and setting, in order of appearance."""
    found: dict[tuple[str, ...], dict[Any, Measurement]] = {}
    for one in evidence:
        same = found.setdefault((one.model, one.domain, one.probe, one.setting), {})
        if (seed := one.fact(TRAIN_SEED)) in same:
            raise UsageError(f"{one.model} was measured twice on {one.domain} by {one.setting}")
        same[seed] = one
    return [Repeats(tuple(same.values())) for same in found.values()]


def one_repeat(evidence: Evidence, **facts: Any) -> Repeats:
    """The measurements of which these facts are true; they must be of one model, domain and setting."""
    found = repeats_in(evidence.where(**facts))
    if len(found) != 1:
        wanted = ", ".join(f"{name} {value!r}" for name, value in facts.items())
        raise UsageError(f"there are {len(found)} measurements of {wanted}, and one was asked for")
    return found[0]


def estimate(values: Values | OverDomains, *, exact: bool, limits: tuple[float, float] | None = (0.0, 1.0)) -> Estimate:
    """The mean over samples and seeds with its 95 % interval, which counts both (`statistics.over_seeds`).

    Args:
        exact: Clopper-Pearson instead of the bootstrap: for samples that are right or wrong (1 or 0), each on its own.
            Of several seeds the mean over them is neither, and is drawn anew.
        limits: The least and the greatest value that there can be, if there are such.
    """
    if exact and len(values.by_seed) == 1:
        return metrics.accuracy(values.by_seed[0].values)
    return over_seeds(resample_mean(*values.samples, limits=limits).at(0.95), values.per_seed.tolist(), limits)


def gap(sources: Sequence[Values], target: Values, seed: int) -> Estimate:
    """The mean over sources less the target, with a seeded bootstrap interval; above 0 if the target is worse."""
    found = metrics.gap([source.averaged for source in sources], target.averaged, seed)
    lost = np.mean([source.per_seed for source in sources], axis=0) - target.per_seed
    return over_seeds(found, lost.tolist(), (-1.0, 1.0))


def ratio_difference(
    strong: tuple[Sequence[Values], Values], weak: tuple[Sequence[Values], Values], seed: int, level: float
) -> Estimate:
    """Which part of one measure is left on the target, less the same of another; each is (sources, target)."""
    one, other = (([source.averaged for source in sources], target.averaged) for sources, target in (strong, weak))
    left = [
        target.per_seed / np.maximum(np.mean([source.per_seed for source in sources], axis=0), 1e-9)
        for sources, target in (strong, weak)
    ]
    return over_seeds(bootstrap_ratios(one, other, seed, level=level), (left[0] - left[1]).tolist())
