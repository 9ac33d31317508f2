"""A dense first layer in whole numbers: the sum of its image of an input and its image of noise, without rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from shiftproof.models.rewrite import Affine

__all__ = ["ExactLayer"]

_EXACT = 2.0**52
"""Whole numbers up to here, and sums of them, are exact in float64."""


@dataclass(frozen=True, eq=False)
class ExactLayer:
    """W(x + e) + b as a function of x + e alone, from Wx and We that are computed apart.

    Inputs and noise are whole numbers of steps. With weights rounded to whole multiples of a power of two, products and
    their sums are whole numbers below 2^52, which float64 adds exactly in any order. That moves a weight by at most
    most / 2^52 of the largest sum of a row, 2^-33 for a sigma of 0.5; the layer so rounded is what is certified.
    `most` is the largest number of steps of an input with its noise.
    """

    affine: Affine
    grid: int
    most: float

    @cached_property
    def _unit(self) -> float:
        """How many units of a rounded weight make 1."""
        largest = float(self.affine.weight.abs().sum(1).max()) + float(self.affine.bias.abs().max())
        return 2.0 ** math.floor(math.log2(_EXACT / (self.most * max(largest, 1e-30))))

    @cached_property
    def _weight(self) -> Tensor:
        return (self.affine.weight * self._unit).round().T.contiguous()

    def of_noise(self, steps: Tensor) -> Tensor:
        """The layer's image of noise (N x inputs, steps), without the bias."""
        return steps.flatten(1) @ self._weight

    def of_input(self, steps: Tensor) -> Tensor:
        """The layer's image of an input, with the bias."""
        return self.of_noise(steps) + (self.affine.bias * self._unit * self.grid).round()

    def value(self, total: Tensor) -> Tensor:
        """What the layer gives, in float32; `total` is of an input and its noise together, and is overwritten."""
        return total.mul_(1 / (self._unit * self.grid)).to(torch.float32)
