"""The small values that travel between rooms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
    "Share",
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
class Share:
    """What one of several processes has of a step's minibatches: of domain i a part that begins with sample `starts[i]`
    of the `sizes[i]` that all processes have together.

    `total` is the sum of a tensor over all processes, with gradients. Each computes the whole loss from such sums.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    total: Callable[[Tensor], Tensor]

    def rows(self, held: tuple[int, ...]) -> Tensor:
        """Which samples of the whole minibatches these are, of a process that has so many of each domain."""
        import torch

        before = np.cumsum((0, *self.sizes[:-1])).tolist()
        parts = zip(before, self.starts, held, strict=True)
        return torch.cat([torch.arange(first + start, first + start + size) for first, start, size in parts])

    def per_domain(self) -> list[Share]:
        """The share of each domain's minibatch."""
        return [Share((start,), (size,), self.total) for start, size in zip(self.starts, self.sizes, strict=True)]


@dataclass(frozen=True, eq=False)
class Batch:
    """One training step's samples: a minibatch of every source domain, one after the other.

    `inputs` is N x ... in [0, 1], `labels` N integers; `sizes[i]` samples belong to the domain `names[i]`, in that
    order. `step` counts from 0, for objectives that anneal; `memory` is what the loss of the step before it remembered.
    Where several processes train, this one has a `share` of the samples: means are those of all of them, and draws are
    those that one process would have made for its samples.
    """

    inputs: Tensor
    labels: Tensor
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    step: int = 0
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    share: Share | None = None

    @property
    def whole_sizes(self) -> tuple[int, ...]:
        """How many samples of each domain all processes have together."""
        return self.sizes if self.share is None else self.share.sizes

    def mean_over_domains(self, values: Tensor) -> Tensor:
        """The mean over domains of the mean of each domain's `values` (N numbers): every domain weighs the same."""
        return self.domain_means(values).mean()

    def domain_means(self, values: Tensor) -> Tensor:
        """The mean of each domain's `values` (N x ...), in the order of `names`."""
        import torch

        parts = torch.split(values, list(self.sizes))
        if self.share is None:
            return torch.stack([part.mean(0) for part in parts])
        return self.total(torch.stack([part.sum(0) / size for part, size in zip(parts, self.share.sizes, strict=True)]))

    def total(self, sums: Tensor) -> Tensor:
        """Sums over the samples of this batch as sums over those of all processes."""
        return sums if self.share is None else self.share.total(sums)

    def draw(self, draw: Callable[[int], Tensor], dim: int = 0) -> Tensor:
        """What `draw(n)` gives for n samples, which lie along a dimension: for the N of this batch.

        Of a share it is what one process with all samples would have drawn for them: all is drawn, and most left out.
        """
        if self.share is None:
            return draw(len(self.labels))
        return draw(sum(self.share.sizes)).index_select(dim, self.share.rows(self.sizes))

    def in_halves(self) -> Batch:
        """The same samples, with the first and the second half of each domain's minibatch as domains of their own."""
        halves = [(whole // 2, whole - whole // 2) for whole in self.whole_sizes]
        names = tuple(f"{name}/{half}" for name in self.names for half in (1, 2))
        whole = tuple(size for pair in halves for size in pair)
        if self.share is None:
            return replace(self, names=names, sizes=whole)
        starts, sizes = [], []
        for (middle, _), start, size in zip(halves, self.share.starts, self.sizes, strict=True):
            first = min(size, max(0, middle - start))
            starts += [min(start, middle), max(0, start - middle)]
            sizes += [first, size - first]
        return replace(self, names=names, sizes=tuple(sizes), share=Share(tuple(starts), whole, self.share.total))

    def per_domain(self) -> list[Batch]:
        """One batch for each domain, in the order of `names`."""
        import torch

        inputs, labels = torch.split(self.inputs, list(self.sizes)), torch.split(self.labels, list(self.sizes))
        shares = [None] * len(self.sizes) if self.share is None else self.share.per_domain()
        parts = zip(inputs, labels, self.names, self.sizes, shares, strict=True)
        return [Batch(x, y, (name,), (size,), self.step, self.memory, share) for x, y, name, size, share in parts]


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
