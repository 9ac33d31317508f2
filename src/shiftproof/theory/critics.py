"""Functions with Lipschitz constant 1: whatever their means differ by, two distributions are at least so far apart."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import UsageError
from shiftproof.theory.points import Points, unit_means
from shiftproof.types import FloatArray

__all__ = ["Critic", "Judge"]


class Critic(ABC):
    """A function of inputs that changes by at most what an input moves in its norm, or an unbiased draw of one.

    By duality W1(P, Q) is at least the difference of its means under Q and P (Kantorovich and Rubinstein 1958).
    """

    kind: ClassVar[str]
    """Its name, under which profiles keep it."""
    norm: str
    """In which inputs move."""
    shape: tuple[int, ...]
    """Of one input."""

    @abstractmethod
    def values(self, inputs: NDArray[np.float32], generator: np.random.Generator) -> FloatArray:
        """Its values (N) at inputs (N x shape); the generator is for critics with noise."""

    @abstractmethod
    def allowance(self, inputs: NDArray[np.float32]) -> float:
        """What rounding may have changed of a value, at these inputs."""

    @property
    def range(self) -> tuple[float, float] | None:
        """Between what its values lie, if that is known."""
        return None

    @property
    @abstractmethod
    def title(self) -> str:
        """What it is, in a few words."""

    @abstractmethod
    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Facts for JSON and arrays by name, from which `from_state` makes it again."""

    @classmethod
    @abstractmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Critic:
        """The critic that was stored."""


@dataclass(frozen=True, eq=False)
class Judge:
    """A critic with its values clipped to [low, high], which keeps its constant and makes its mean easy to bound."""

    critic: Critic
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise UsageError(f"the critic is clipped to [{self.low:g}, {self.high:g}], which is no interval")

    def values(self, inputs: NDArray[np.float32], generator: np.random.Generator) -> FloatArray:
        """Clipped values (N)."""
        return np.clip(self.critic.values(inputs, generator), self.low, self.high)

    def scores(self, points: Points, generator: np.random.Generator, seed: int) -> FloatArray:
        """One score in [0, 1] for each unit, in a random order: where its mean value lies between low and high."""
        means = unit_means(self.values(points.inputs, generator), points.units, seed)
        return np.clip((means - self.low) / (self.high - self.low), 0.0, 1.0)
