"""A dense first layer in whole numbers: the sum of its image of an input and its image of noise, without rounding."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from shiftproof.models.prepared.rewrite import Affine

__all__ = ["ExactLayer"]

_EXACT = 2.0**52
"""Whole numbers up to here, and sums of them, are exact in float64."""
_ROUNDING = 4 * 2.0**-24
"""What an output may be off by, relative to the sum of all terms in it: float32 itself rounds as much."""


@dataclass(frozen=True, eq=False)
class ExactLayer:
    """W(x + e) + b as a function of x + e alone, from Wx and We that are computed apart.

    Inputs and noise are whole numbers of steps. Each row of weights is rounded to whole multiples of a power of two of
    its own, so that its products and their sums are whole numbers below 2^52, which float64 adds exactly in any order.
    That moves a weight by at most most / 2^52 of its row's sum, 2^-33 for a sigma of 0.5; the layer so rounded is what
    is certified, if `agrees` finds it equal to the model's own. `most` is the largest number of steps of an input with
    its noise.
    """

    affine: Affine
    grid: int
    most: float

    @cached_property
    def _units(self) -> Tensor:
        """How many units of a rounded weight make 1, row by row."""
        largest = self.most * self.affine.weight.abs().sum(1) + self.grid * self.affine.bias.abs()
        # a row of nothing but zeros has any unit, and one that is not finite has none
        usable = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)
        return torch.exp2(torch.floor(torch.log2(_EXACT / usable)))

    @cached_property
    def _weight(self) -> Tensor:
        return (self.affine.weight * self._units[:, None]).round().T.contiguous()

    @cached_property
    def _bias(self) -> Tensor:
        return (self.affine.bias * self._units * self.grid).round()

    @cached_property
    def _steps_to_values(self) -> Tensor:
        return 1 / (self._units * self.grid)

    def agrees(self, layers: nn.Module, inputs: Tensor) -> bool:
        """Whether the model's own layers, in float64, give the same for inputs (N x shape), output by output.

        An output may be off by as much as float32 rounds the terms of its own row; what other rows are does not count.
        """
        steps = (inputs.double() * self.grid).round()
        exact = copy.deepcopy(layers).double()(steps / self.grid)
        weight, bias = self.affine.weight.abs(), self.affine.bias.abs()
        terms = (steps / self.grid).flatten(1).abs() @ weight.T + bias
        off = (self.value(self.of_input(steps)).double() - exact).abs()
        # below float32's smallest normal number its steps are all alike
        return bool((off <= _ROUNDING * terms + torch.finfo(torch.float32).tiny).all())

    def of_noise(self, steps: Tensor) -> Tensor:
        """The layer's image of noise (N x inputs, steps), without the bias."""
        return steps.flatten(1) @ self._weight

    def of_input(self, steps: Tensor) -> Tensor:
        """The layer's image of an input, with the bias."""
        return self.of_noise(steps) + self._bias

    def value(self, total: Tensor) -> Tensor:
        """What the layer gives, in float32; `total` is of an input and its noise together, and is overwritten."""
        return total.mul_(self._steps_to_values).to(torch.float32)
