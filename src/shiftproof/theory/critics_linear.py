"""Linear critics: a direction of unit length in the dual norm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from shiftproof.errors import UsageError
from shiftproof.perturbations.norms import DUALS
from shiftproof.theory.critics import Critic
from shiftproof.types import FloatArray

__all__ = ["LinearCritic", "linear_critics"]

_ROWS = 256
_UNIT = 2.0**-53
_STRENGTHS = (1.0, 0.1, 0.01)
"""Of the whitening, as shares of the mean variance along the samples: the smaller, the more."""
_SHARES = (0.0, 0.5, 0.9)
"""Shares of the numbers of an input that a direction in l1 gives less than full weight."""
_COUNTS = (1.0, 0.3, 0.1, 0.01, 0.0)
"""Shares of the numbers of an input that a direction in linf looks at; 0 is the one that differs most."""


@dataclass(frozen=True, eq=False)
class LinearCritic(Critic):
    """<weight, x> - offset, with a weight (as many numbers as an input, float64) of dual norm 1 at most."""

    weight: FloatArray
    offset: float
    norm: str
    shape: tuple[int, ...]

    kind: ClassVar[str] = "linear"
    title: ClassVar[str] = "linear critic"

    @classmethod
    def along(cls, direction: FloatArray, middle: FloatArray, norm: str, shape: tuple[int, ...]) -> LinearCritic:
        """The critic in a direction of any length, 0 at the input `middle` (flat)."""
        length = float(np.linalg.norm(direction, DUALS[norm]))
        if not length > 0 or not np.isfinite(length):
            # two samples with the same mean: any direction will do, and this one is as good
            direction, length = np.eye(1, len(direction))[0], 1.0
        # a hair shorter than 1, since the length itself was rounded
        weight = direction / length * (1 - 4 * len(direction) * _UNIT)
        return cls(weight, float(weight @ middle), norm, shape)

    def values(self, inputs: NDArray[np.float32], generator: np.random.Generator) -> FloatArray:
        """Of each input, in float64."""
        flat = inputs.reshape(len(inputs), -1)
        blocks = [flat[start : start + _ROWS].astype(np.float64) for start in range(0, len(flat), _ROWS)]
        return np.concatenate([block @ self.weight for block in blocks]) - self.offset if blocks else np.zeros(0)

    def allowance(self, inputs: NDArray[np.float32]) -> float:
        """The bound of any order of summation in float64."""
        terms = len(self.weight) + 1
        largest = float(np.abs(inputs).max(initial=0.0))
        return terms * _UNIT / (1 - terms * _UNIT) * (float(np.abs(self.weight).sum()) * largest + abs(self.offset))

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The weight as an array, the rest as facts."""
        return {"offset": self.offset, "norm": self.norm, "shape": list(self.shape)}, {"weight": self.weight}

    @classmethod
    def from_state(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> LinearCritic:
        """Made again; a weight that is longer than 1 is refused, since it would bound nothing."""
        weight, norm, shape = np.asarray(arrays["weight"], np.float64), str(facts["norm"]), tuple(facts["shape"])
        if norm not in DUALS or weight.shape != (int(np.prod(shape)),):
            raise UsageError(f"a linear critic of inputs {shape} in {norm!r} has no weight of shape {weight.shape}")
        if not float(np.linalg.norm(weight, DUALS[norm])) <= 1:
            raise UsageError("the weight of the linear critic is longer than 1 in the dual norm")
        return cls(weight, float(facts["offset"]), norm, shape)


def linear_critics(reference: NDArray[np.float32], target: NDArray[np.float32], norm: str) -> list[LinearCritic]:
    """Linear critics fitted to two samples, of which one is to be chosen on others; always as many, in one order.

    The first is the best one for the difference of the two means. The others give some of that away for less
    variation: in l2 by whitening, in l1 and linf by looking at fewer or at more numbers of an input.
    """
    shape = reference.shape[1:]
    flat = [one.reshape(len(one), -1).astype(np.float64) for one in (reference, target)]
    means = [one.mean(0) for one in flat]
    gap, middle = means[1] - means[0], (means[0] + means[1]) / 2
    if norm == "l2":
        directions = _whitened(np.concatenate([one - mean for one, mean in zip(flat, means, strict=True)]), gap)
    elif norm == "l1":
        directions = _truncated(gap)
    elif norm == "linf":
        directions = _largest(gap)
    else:
        raise UsageError(f"linear critics are for l2, l1 and linf, not for {norm!r}")
    return [LinearCritic.along(direction, middle, norm, shape) for direction in directions]


def _whitened(centred: FloatArray, gap: FloatArray) -> Iterator[FloatArray]:
    """The gap, and (S + r I)^-1 gap for some r: by a matrix of samples x samples where inputs have more numbers."""
    yield gap
    samples, numbers = centred.shape
    values, vectors = np.linalg.eigh(centred.T @ centred if numbers <= samples else centred @ centred.T)
    along = vectors.T @ (gap if numbers <= samples else centred @ gap)
    mean = float(np.square(centred).sum()) / min(samples, numbers)
    for strength in _STRENGTHS:
        ridge = max(strength * mean, 1e-12)
        part = vectors @ (along / (np.maximum(values, 0.0) + ridge))
        yield part if numbers <= samples else gap - centred.T @ part


def _truncated(gap: FloatArray) -> Iterator[FloatArray]:
    for share in _SHARES:
        largest = max(float(np.quantile(np.abs(gap), share)), 1e-300)
        yield np.clip(gap / largest, -1, 1)


def _largest(gap: FloatArray) -> Iterator[FloatArray]:
    order = np.argsort(-np.abs(gap))
    for share in _COUNTS:
        direction = np.zeros_like(gap)
        chosen = order[: max(1, round(share * len(gap)))]
        direction[chosen] = np.sign(gap[chosen])
        yield direction
