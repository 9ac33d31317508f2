"""The small values that travel between rooms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from annotated_types import Interval
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "MOST",
    "Batch",
    "Cost",
    "Estimate",
    "Finding",
    "FloatArray",
    "IntArray",
    "LayerCount",
    "Loss",
    "Natural",
    "NonNegative",
    "Positive",
    "Range",
    "Side",
    "TextValue",
]

MOST = 10**9
"""What no count of steps, votes, samples or units exceeds: beyond it lie typing errors, and integers overflow."""
Positive = Annotated[int, Interval(ge=1, le=MOST)]
"""A whole number from 1 to a thousand million, for options of methods."""
LayerCount = Annotated[int, Interval(ge=1, le=1_000)]
"""How many layers a network has, one after the other."""
Side = Annotated[int, Interval(ge=1, le=8_192)]
"""Height or width of an image, in pixels."""
Natural = Annotated[int, Interval(ge=0, le=MOST)]
"""A whole number from 0 to a thousand million."""
NonNegative = Annotated[float, Interval(ge=0, lt=math.inf)]
"""A finite number of at least 0."""
IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """Where to search for a hyper-parameter, on a logarithmic scale if `log`; stands beside its type and default.

    `weight: Annotated[float, Range(1, 100, log=True)] = 10.0`
    """

    low: float
    high: float
    log: bool = False

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}{' log' if self.log else ''}"


class TextValue(ABC):
    """A small value that is written as text, such as linf:8/255."""

    @property
    @abstractmethod
    def spec(self) -> str:
        """The text that makes it again."""


@dataclass(frozen=True, eq=False)
class Batch:
    """One training step's samples: a minibatch of every source domain, one after the other.

    `inputs` is N x ... in [0, 1], `labels` N integers; `sizes[i]` samples belong to the domain `names[i]`, in that
    order. `step` counts from 0, for objectives that anneal; `memory` is what the loss of the step before it remembered.
    """

    inputs: Tensor
    labels: Tensor
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    step: int = 0
    memory: Mapping[str, Tensor] = field(default_factory=dict)

    def mean_over_domains(self, values: Tensor) -> Tensor:
        """The mean over domains of the mean of each domain's `values` (N numbers): every domain weighs the same."""
        return self.domain_means(values).mean()

    def domain_means(self, values: Tensor) -> Tensor:
        """The mean of each domain's `values` (N numbers), in the order of `names`."""
        import torch

        return torch.stack([part.mean() for part in torch.split(values, list(self.sizes))])

    def per_domain(self) -> list[Batch]:
        """One batch for each domain, in the order of `names`."""
        import torch

        inputs, labels = torch.split(self.inputs, list(self.sizes)), torch.split(self.labels, list(self.sizes))
        parts = zip(inputs, labels, self.names, self.sizes, strict=True)
        return [Batch(x, y, (name,), (size,), self.step, self.memory) for x, y, name, size in parts]


class Loss:
    """What an objective returns: a scalar to descend, and named parts for the record.

    `Loss(error + weight * penalty, error=error, penalty=penalty)`. What it should `remember` (tensors by name) comes
    back as the next batch's memory; training keeps it in its checkpoints.
    """

    def __init__(self, total: Tensor, *, remember: Mapping[str, Tensor] | None = None, **parts: Tensor) -> None:
        self.total = total
        self.memory = {name: value.detach().clone() for name, value in (remember or {}).items()}
        self.parts = {name: part.detach() for name, part in parts.items()}

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={float(part):.4g}" for name, part in self.parts.items())
        return f"Loss({float(self.total):.4g}{', ' + parts if parts else ''})"


@dataclass(frozen=True)
class Cost:
    """Forward passes and seconds, as expected and at most."""

    passes: int
    seconds: float
    most_passes: int
    most_seconds: float


@dataclass(frozen=True)
class Estimate:
    """A number measured on `n` samples, with a two-sided interval at `level`."""

    value: float
    low: float
    high: float
    n: int
    level: float = 0.95
    method: str = ""

    def format(self, unit: Callable[[float], str] = "{:.1%}".format) -> str:
        """The value and its interval as text: '92.1% (86.4% to 96.0%)'."""
        return f"{unit(self.value)} ({unit(self.low)} to {unit(self.high)})"


@dataclass(frozen=True)
class Finding:
    """The outcome of one validity check, shown as a row of a table or report."""

    level: Literal["pass", "warn", "fail"]
    code: str
    message: str
    evidence: dict[str, Any] = field(default_factory=dict)
