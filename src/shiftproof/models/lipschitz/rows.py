"""Dense layers with rows of bounded length (Provably Robust Transfer, 2022)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.models.lipschitz.dense import ComputedLinear
from shiftproof.perturbations.threat import project

__all__ = ["RowL1Linear", "RowL2Linear", "project_l1_rows"]


class RowL1Linear(ComputedLinear):
    """Row j is g_j V_j / ||V_j||_1 with g_j in [-bound, bound]: `bound`-Lipschitz in linf by construction."""

    def __init__(self, inputs: int, outputs: int, bound: float = 1.0, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.bound = bound
        self.gain = nn.Parameter(self.raw.detach().abs().sum(1).clamp(max=bound))

    def matrix(self) -> Tensor:
        """The matrix, out x in."""
        gain = _within(self.gain, self.gain.clamp(-self.bound, self.bound))
        return gain[:, None] * F.normalize(self.raw, p=1, dim=1)


class RowL2Linear(ComputedLinear):
    """Row j is min(g_j, bound) V_j / ||V_j||_2, as published.

    Neither is `bound` its constant in linf, which is up to sqrt(inputs) times as large, nor does it bound a negative
    g_j. `lipschitz_bound` takes the true constant from the rows.
    """

    def __init__(self, inputs: int, outputs: int, bound: float = 1.0, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.bound = bound
        self.gain = nn.Parameter(self.raw.detach().norm(dim=1).clamp(max=bound))

    def matrix(self) -> Tensor:
        """The matrix, out x in."""
        gain = _within(self.gain, self.gain.clamp(max=self.bound))
        return gain[:, None] * F.normalize(self.raw, dim=1)


def _within(gain: Tensor, clamped: Tensor) -> Tensor:
    # the gradient passes a clamp that holds, or a gain beyond the bound could never come back
    return clamped.detach() + (gain - gain.detach())


def project_l1_rows(weight: Tensor, bound: float) -> Tensor:
    """The nearest matrix, in l2, whose rows have an l1 norm of at most `bound`.

    >>> import torch
    >>> project_l1_rows(torch.tensor([[2.0, 1.0], [0.5, -0.5]]), 2.0)
    tensor([[ 1.5000,  0.5000],
            [ 0.5000, -0.5000]])
    """
    return project(weight, "l1", bound)
