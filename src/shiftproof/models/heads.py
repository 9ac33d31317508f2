"""Heads of a model: the layers between a representation and the logits, free or with rows of bounded length."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal

from annotated_types import Ge, Interval, MultipleOf
from torch import nn

from shiftproof.models.lipschitz import MaxMin, RowL1Linear, RowL2Linear, SpectralLinear
from shiftproof.types import LayerCount

__all__ = ["Head"]


@dataclass(frozen=True)
class Head:
    """What every model ends with: one dense layer unless told, or several with pairs sorted (MaxMin) in between.

    `head_bound` is that of every row, in l1 or, as published, in l2, or of the largest singular value of a matrix
    (spectral); a free head has none. `head_width` is that of hidden layers.
    """

    head: Literal["free", "row-l1", "row-l2", "spectral"] = "free"
    head_layers: LayerCount = 1
    head_width: Annotated[int, Ge(2), MultipleOf(2)] = 256
    head_bound: Annotated[float, Interval(gt=0, lt=math.inf)] = 1.0

    def build(self, width: int, classes: int) -> nn.Module:
        """Freshly initialised, from representations of length `width` to logits."""
        first, *later = pairwise([width, *[self.head_width] * (self.head_layers - 1), classes])
        if not later:
            return self._layer(*first)
        hidden = [layer for sizes in later for layer in (MaxMin(), self._layer(*sizes))]
        return nn.Sequential(self._layer(*first), *hidden)

    def _layer(self, inputs: int, outputs: int) -> nn.Module:
        if self.head == "free":
            return nn.Linear(inputs, outputs)
        if self.head == "spectral":
            return SpectralLinear(inputs, outputs, self.head_bound)
        return {"row-l1": RowL1Linear, "row-l2": RowL2Linear}[self.head](inputs, outputs, self.head_bound)
