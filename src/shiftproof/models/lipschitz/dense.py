"""Dense layers whose matrix is computed from other parameters."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.models.lipschitz.freeze import Freezable
from shiftproof.models.lipschitz.norms import matrix_norm
from shiftproof.perturbations.threat import Norm

__all__ = ["ComputedLinear", "dense"]


class ComputedLinear(Freezable):
    """A dense layer with the matrix that `matrix()` computes from `raw` (out x in) and `gain`, at every pass.

    A matrix kept from one pass to the next would be stale after a step of the optimiser or `load_state_dict`. torch's
    parametrizations would do the same, but a model that has them can't be pickled, and so not sent to a worker.
    """

    bias: nn.Parameter | None

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.raw = nn.Parameter(torch.empty(outputs, inputs))
        # what torch's own layers begin with
        nn.init.kaiming_uniform_(self.raw, a=math.sqrt(5))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-1, 1) / math.sqrt(inputs)) if bias else None

    @abstractmethod
    def matrix(self) -> Tensor:
        """The matrix, out x in."""

    def forward(self, inputs: Tensor) -> Tensor:
        """N x in to N x out."""
        return F.linear(inputs, self.matrix(), self.bias)

    def frozen(self, shape: tuple[int, ...]) -> nn.Linear:
        """A plain dense layer."""
        return dense(copy.deepcopy(self).double().matrix().to(self.raw), self.bias)

    def lipschitz(self, norm: Norm, shape: tuple[int, ...]) -> float:
        """Of the matrix as it is, not as it is meant to be."""
        with torch.no_grad():
            return matrix_norm(self.matrix(), norm)

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"{self.inputs}, {self.outputs}, bias={self.bias is not None}"


def dense(matrix: Tensor, bias: Tensor | None) -> nn.Linear:
    """A plain dense layer with a given matrix (out x in), which is not trained."""
    # not initialised, which would draw from the global random state
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, 1, 1, bias=bias is not None)  # type: ignore[no-untyped-call]
    layer.out_features, layer.in_features = matrix.shape
    layer.weight = nn.Parameter(matrix.detach().clone(), requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
    return layer
