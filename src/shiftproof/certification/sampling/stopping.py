"""When an image has been sampled enough."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainValidator

from shiftproof.certification.sampling.budget import Levels, bounds
from shiftproof.errors import UsageError
from shiftproof.perturbations.noise import Noise
from shiftproof.statistics import sequence_lower, sequence_upper
from shiftproof.types import FloatArray, IntArray, TextValue

__all__ = ["Full", "Look", "Radii", "Stop", "StopOption", "Within", "as_stop"]

FUTILE = 1e-3
"""Giving up costs certificates, never soundness. Each of the two bounds it rests on is wrong this often at most."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Look:
    """What is known of some images in the middle of sampling. Every radius is computed when a rule asks for it."""

    noise: Noise
    count: IntArray
    rival_count: IntArray
    drawn: IntArray
    n: int
    levels: Levels
    off_grid: FloatArray | float = 0.0

    @cached_property
    def proven(self) -> FloatArray:
        """The radius that holds if sampling stops now."""
        known = bounds(self.count, self.rival_count, self.drawn, self.n, self.levels)
        return self.noise.radius(known.miss, known.rival) - self.off_grid

    @cached_property
    def projected(self) -> FloatArray:
        """The radius at the full number of samples if they went on as they began."""
        share = self.n / self.drawn
        return self._final(np.round(self.count * share), np.round(self.rival_count * share))

    @cached_property
    def reachable(self) -> FloatArray:
        """The radius at the full number of samples if the probabilities are as good as the votes still allow."""
        best = sequence_upper(self.count, self.drawn, FUTILE)
        rival = sequence_lower(self.rival_count, self.drawn, FUTILE)
        left = self.n - self.drawn
        count = np.minimum(np.ceil(best * self.n), self.count + left)
        return self._final(count, np.maximum(np.floor(rival * self.n), self.rival_count))

    def _final(self, count: FloatArray, rival_count: FloatArray) -> FloatArray:
        rivals = np.minimum(rival_count, self.n - count).astype(np.int64)
        final = bounds(count.astype(np.int64), rivals, np.full(len(count), self.n), self.n, self.levels)
        return self.noise.radius(final.miss, final.rival) - self.off_grid


class Stop(TextValue, ABC):
    """A rule: a frozen value that says which images need no more samples."""

    early: ClassVar[bool] = True
    """Whether the rule ever stops before the end; if it may, a part of alpha pays for it."""

    @abstractmethod
    def decided(self, look: Look) -> Mask:
        """For each image, whether its question is decided."""

    @property
    def asked_radii(self) -> tuple[float, ...] | None:
        """The radii at which alone certified accuracy counts; None for a rule that asks for none."""
        return None

    def reach(self, radii: FloatArray, largest: float) -> FloatArray:
        """What the full number of samples could have given, at most, where sampling stopped early at these radii.

        A radius below 0 is of an image without a certificate; `largest` is what no radius exceeds.
        """
        return np.full(len(radii), largest)

    def __str__(self) -> str:
        return self.spec


@dataclass(frozen=True)
class Full(Stop):
    """Sample every image the full number of times."""

    early: ClassVar[bool] = False

    @property
    def spec(self) -> str:
        """full"""
        return "full"

    def decided(self, look: Look) -> Mask:
        """Never."""
        return np.zeros(len(look.drawn), bool)


@dataclass(frozen=True)
class Radii(Stop):
    """Stop an image once every asked radius is decided: certified, or out of reach.

    Nested questions need no sharing of alpha. The radius of an image that stopped is a lower bound of what more samples
    would give: certified accuracy at the asked radii is what counts, an average of radii is biased low.
    """

    radii: tuple[float, ...]

    def __init__(self, radii: Iterable[float]) -> None:
        try:
            values = tuple(sorted({float(radius) for radius in radii}))
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"radii are {radii!r}; they should be numbers of at least 0, such as 0,0.25,0.5"
            ) from error
        if not values or not all(0 <= radius < math.inf for radius in values):
            raise UsageError(f"radii are {list(values)}; they should be numbers of at least 0, such as 0,0.25,0.5")
        object.__setattr__(self, "radii", values)

    @property
    def spec(self) -> str:
        """radii:0,0.25, every digit kept."""
        return "radii:" + ",".join(map(shortest, self.radii))

    @property
    def asked_radii(self) -> tuple[float, ...]:
        """All of them."""
        return self.radii

    def reach(self, radii: FloatArray, largest: float) -> FloatArray:
        """The next asked radius, which was given up; beyond the last one, anything.

        >>> Radii([0, 0.25]).reach(np.array([-1, 0.1, 0.25]), 0.9)
        array([0.  , 0.25, 0.9 ])
        """
        ends = np.array([*self.radii, largest])
        given_up: FloatArray = ends[np.searchsorted(self.radii, radii, side="right")]
        return np.maximum(given_up, np.maximum(radii, 0.0))

    def decided(self, look: Look) -> Mask:
        """Certified or given up, for every radius. Radius 0 asks for any certificate at all."""
        asked = np.maximum(self.radii, np.nextafter(0, 1))[:, None]
        certified = look.proven >= asked
        if certified.all():
            return np.ones(len(look.drawn), bool)
        return np.asarray((certified | (look.reachable < asked)).all(0))


@dataclass(frozen=True)
class Within(Stop):
    """Stop an image once its radius is at least `fraction` of what the full number of samples would probably give.

    The radius that is reported holds as it is; how near it is to the full one is a projection, not a promise.
    """

    fraction: float

    def __post_init__(self) -> None:
        if not 0 < self.fraction < 1:
            raise UsageError(f"Within({self.fraction}) should be a fraction between 0 and 1, such as 0.95")

    @property
    def spec(self) -> str:
        """within:0.95, every digit kept."""
        return f"within:{shortest(self.fraction)}"

    def reach(self, radii: FloatArray, largest: float) -> FloatArray:
        """What the rule projected, at most; 0 where it was hopeless."""
        return np.minimum(np.maximum(radii, 0.0) / self.fraction, max(largest, float(np.max(radii, initial=0.0))))

    def decided(self, look: Look) -> Mask:
        """Near enough, or hopeless."""
        near = (look.proven > 0) & (look.proven >= self.fraction * look.projected)
        decided: Mask = near | (look.reachable <= 0)
        return decided


def shortest(value: float) -> str:
    """The shortest text that gives a number back exactly: 0 and 0.25, not 0.0 and 0.250.

    >>> shortest(0.0), shortest(0.1 + 0.2)
    ('0', '0.30000000000000004')
    """
    return repr(float(value)).removesuffix(".0")


def as_stop(value: Any) -> Stop:
    """A rule from what a caller may give: a rule, "full", "radii:0,0.25,0.5", "within:0.95", or a list of radii.

    >>> as_stop("radii:0,0.5")
    Radii(radii=(0.0, 0.5))
    """
    if isinstance(value, Stop):
        return value
    if isinstance(value, list | tuple):
        return Radii(value)
    name, _, text = str(value).partition(":")
    try:
        if name == "full" and not text:
            return Full()
        if name == "radii":
            return Radii(float(part) for part in text.split(","))
        if name == "within":
            return Within(float(text))
    except ValueError as error:
        raise UsageError(f"stop is {value!r}: {text!r} is not a number, or several with commas") from error
    raise UsageError(f"stop is {value!r}; it should be full, radii:0,0.25,0.5 or within:0.95")


StopOption = Annotated[Stop, PlainValidator(as_stop)]
"""For fields of dataclasses that are filled from YAML or a command line."""
