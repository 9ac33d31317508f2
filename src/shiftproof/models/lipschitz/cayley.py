"""Orthogonal layers by the Cayley transform (Trockman & Kolter, ICLR 2021): every singular value is 1."""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.lipschitz.dense import ComputedLinear
from shiftproof.models.lipschitz.fourier import circulate, kernel_of, spectrum
from shiftproof.models.lipschitz.freeze import Freezable
from shiftproof.models.lipschitz.frozen_conv import FrozenConv2d, to_depth
from shiftproof.models.lipschitz.norms import spectral_norm
from shiftproof.perturbations.threat import Norm

__all__ = ["CayleyConv2d", "CayleyLinear", "cayley"]


def cayley(matrix: Tensor) -> Tensor:
    """Any matrix (... x out x in, real or complex) to one with orthonormal columns, or rows if out < in.

    With the first `in` rows U and the others V: A = U - U^H + V^H V and Q = [(I - A); -2V] (I + A)^-1.

    >>> cayley(torch.tensor([[0.0, -1.0], [1.0, 0.0]]) / 2)
    tensor([[ 0.,  1.],
            [-1.,  0.]])
    """
    if matrix.shape[-2] < matrix.shape[-1]:
        return cayley(matrix.mH).mH
    upper, lower = matrix.tensor_split([matrix.shape[-1]], -2)
    skew = upper - upper.mH + lower.mH @ lower
    one = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    # I - A and (I + A)^-1 commute, so that one system from the right gives both blocks
    transformed: Tensor = torch.linalg.solve(one + skew, torch.cat([one - skew, -2 * lower], -2), left=False)
    return transformed


def _scaled(raw: Tensor, gain: Tensor) -> Tensor:
    """`raw` with the Frobenius norm `gain`, in at least float32: there is no solver for less."""
    wide = torch.promote_types(raw.dtype, torch.float32)
    return gain.to(wide) * F.normalize(raw.to(wide).flatten(), dim=0).view_as(raw)


class CayleyLinear(ComputedLinear):
    """A dense layer with orthonormal rows or columns: the Cayley transform of `raw`, scaled to the norm `gain`."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.gain = nn.Parameter(self.raw.detach().norm())

    def matrix(self) -> Tensor:
        """The matrix, out x in."""
        return cayley(_scaled(self.raw, self.gain)).to(self.raw.dtype)


class CayleyConv2d(Freezable):
    """A circular convolution, orthogonal: an isometry if out >= in * stride^2, the adjoint of one if not.

    Takes images of any size. With a stride, squares of stride x stride pixels become channels first; a size that is no
    multiple is filled up with zeros. The transform is taken frequency by frequency at every pass.
    """

    bias: nn.Parameter | None

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, bias: bool = True) -> None:
        super().__init__()
        if kernel < 1 or stride < 1:
            raise ModelError(f"kernel {kernel} and stride {stride} of a convolution should be at least 1")
        self.inputs, self.outputs, self.kernel, self.stride = inputs, outputs, kernel, stride
        self.raw = nn.Parameter(torch.empty(outputs, inputs * stride**2, kernel, kernel))
        nn.init.kaiming_uniform_(self.raw, a=math.sqrt(5))
        self.gain = nn.Parameter(self.raw.detach().norm())
        scale = 1 / math.sqrt(self.raw[0].numel())
        self.bias = nn.Parameter(scale * torch.empty(outputs).uniform_(-1, 1)) if bias else None

    def matrices(self, size: tuple[int, int]) -> Tensor:
        """One matrix a frequency (n x m//2+1 x out x in * stride^2) for images that are n x m behind the stride."""
        return cayley(spectrum(_scaled(self.raw, self.gain), size))

    def forward(self, inputs: Tensor) -> Tensor:
        """N x in x H x W to N x out x H/stride x W/stride, rounded up."""
        deep = to_depth(inputs, self.stride)
        n, m = deep.shape[-2:]
        matrices = self.matrices((n, m))
        outputs = circulate(matrices, deep.to(matrices.real.dtype)).to(inputs.dtype)
        return outputs if self.bias is None else outputs + self.bias.view(-1, 1, 1)

    def frozen(self, shape: tuple[int, ...]) -> FrozenConv2d:
        """The convolution for images of one size."""
        matrices = copy.deepcopy(self).double().matrices(self._size(shape))
        return FrozenConv2d(matrices, shape, self.stride, self.bias, self.raw.dtype)

    def lipschitz(self, norm: Norm, shape: tuple[int, ...]) -> float:
        """Of the matrices as they are; what is done with the stride and the zeros has 1 in every norm."""
        size = self._size(shape)
        with torch.no_grad():
            matrices = self.matrices(size)
            if norm == "l2":
                return spectral_norm(matrices)
            taps = kernel_of(matrices.to(torch.complex128), size).abs()
            return float(taps.sum((1, 2, 3) if norm == "linf" else (0, 2, 3)).max())

    def extra_repr(self) -> str:
        """What `repr` shows."""
        shown = f"{self.inputs}, {self.outputs}, kernel={self.kernel}, stride={self.stride}"
        return f"{shown}, bias={self.bias is not None}"

    def _size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        return -(-shape[-2] // self.stride), -(-shape[-1] // self.stride)
