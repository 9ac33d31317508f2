"""Dense layers whose largest singular value is bounded."""

from __future__ import annotations

import torch
from torch import Tensor

from shiftproof.models.lipschitz.dense import ComputedLinear

__all__ = ["SpectralLinear"]


class SpectralLinear(ComputedLinear):
    """A matrix that is scaled down to a largest singular value of `bound` where it would exceed it.

    `bound`-Lipschitz in l2 by construction; nothing follows of it in linf, where `lipschitz_bound` takes the true
    constant. The singular value is computed at every pass, not estimated by a few steps of power iteration, so that
    training and the stored copy see the same function.
    """

    def __init__(self, inputs: int, outputs: int, bound: float = 1.0, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.bound = bound

    def matrix(self) -> Tensor:
        """The matrix, out x in."""
        # the squares of large numbers would overflow
        scale = self.raw.detach().abs().amax().clamp_min(1.0)
        if not bool(scale.isfinite()):
            # training that diverges is told by its loss, not by a library that found no singular values
            return self.raw * torch.nan
        wide = (self.raw if self.outputs <= self.inputs else self.raw.T) / scale
        # of the smaller product; the root of 0 has no gradient
        largest = torch.linalg.eigvalsh(wide @ wide.T)[-1].clamp_min(1e-24).sqrt() * scale
        matrix: Tensor = self.raw * (self.bound / largest).clamp(max=1.0)
        return matrix
