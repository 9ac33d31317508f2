"""An orthogonal convolution for images of one size, with stored weights."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from shiftproof.models.lipschitz.fourier import kernel_of
from shiftproof.models.lipschitz.norms import spectral_norm
from shiftproof.perturbations.threat import Norm

__all__ = ["FrozenConv2d", "to_depth"]

_SMALL = 200
"""Pixels up to which a product with a matrix is the faster Fourier transform: four times at 4 x 4, even at 14 x 14."""


def to_depth(inputs: Tensor, stride: int) -> Tensor:
    """Squares of stride x stride pixels to channels; zeros fill up the last ones: an isometry."""
    return _to_depth(inputs, stride, -inputs.shape[-2] % stride, -inputs.shape[-1] % stride)


def _to_depth(inputs: Tensor, stride: int, below: int, right: int) -> Tensor:
    filled = F.pad(inputs, (0, right, 0, below)) if below or right else inputs
    return filled if stride == 1 else F.pixel_unshuffle(filled, stride)


class FrozenConv2d(nn.Module):
    """The circular convolution with given matrices, one a frequency (n x m//2+1 x out x in, complex).

    Everything is stored as real numbers: casting a module drops the imaginary part of a complex one. Small images go to
    frequencies by `waves` (pixels x 2 frequencies), whose columns are scaled so that its transpose is the way back.
    """

    waves: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(
        self, matrices: Tensor, shape: tuple[int, ...], stride: int, bias: Tensor | None, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.stride, self.below, self.right = stride, -shape[-2] % stride, -shape[-1] % stride
        self.rows, self.columns = (shape[-2] + self.below) // stride, (shape[-1] + self.right) // stride
        self.outputs, self.inputs = matrices.shape[-2:]
        across = matrices.detach().flatten(0, 1).mT
        weight = torch.cat([torch.cat([across.real, across.imag], 2), torch.cat([-across.imag, across.real], 2)], 1)
        self.weight = _fixed(weight, dtype)
        small = self.rows * self.columns <= _SMALL
        self.waves = _fixed(_waves(self.rows, self.columns), dtype) if small else None
        self.bias = None if bias is None else _fixed(bias.detach().view(-1, 1, 1), dtype)

    def forward(self, inputs: Tensor) -> Tensor:
        """N x channels x H x W to N x out x n x m."""
        deep = _to_depth(inputs, self.stride, self.below, self.right)
        if self.waves is None:
            outputs = _back(torch.bmm(_forth(deep, self.weight), self.weight), self.rows, self.columns, inputs)
        else:
            parts = torch.unflatten(deep.flatten(2) @ self.waves, 2, (2, -1)).permute(3, 0, 2, 1).flatten(2)
            parts = torch.unflatten(torch.bmm(parts, self.weight), 2, (2, -1)).permute(1, 3, 2, 0)
            outputs = torch.unflatten(parts.flatten(2) @ self.waves.T, 2, (self.rows, self.columns))
        return outputs if self.bias is None else outputs + self.bias

    def lipschitz(self, norm: Norm, shape: tuple[int, ...]) -> float:
        """Of the numbers as they are stored."""
        if norm == "l2":
            there_and_back = 1.0 if self.waves is None else spectral_norm(self.waves) ** 2
            return there_and_back * spectral_norm(self.weight)
        real, imaginary = self.weight.double()[:, : self.inputs].tensor_split(2, 2)
        matrices = torch.unflatten(torch.complex(real, imaginary).mT, 0, (self.rows, -1))
        taps = kernel_of(matrices, (self.rows, self.columns)).abs()
        # the way to frequencies and back is stored in float32 too
        return float(taps.sum((1, 2, 3) if norm == "linf" else (0, 2, 3)).max()) * (1 + 1e-5)

    def extra_repr(self) -> str:
        """What `repr` shows."""
        return f"{self.inputs}, {self.outputs}, size=({self.rows}, {self.columns}), stride={self.stride}"


def _fixed(values: Tensor, dtype: torch.dtype) -> nn.Parameter:
    return nn.Parameter(values.to(dtype).contiguous(), requires_grad=False)


def _waves(n: int, m: int) -> Tensor:
    """The Fourier transform of real images as an isometry: n m x 2 n (m//2+1)."""
    transform = torch.fft.rfft2(torch.eye(n * m, dtype=torch.float64).view(-1, n, m), norm="ortho")
    # a column stands for its conjugate too, unless it is its own
    twice = torch.full((m // 2 + 1,), 2.0, dtype=torch.float64)
    twice[0] = 1
    if m % 2 == 0:
        twice[-1] = 1
    scaled = transform * twice.sqrt()
    return torch.cat([scaled.real.flatten(1), scaled.imag.flatten(1)], 1)


@fx.wrap
def _forth(images: Tensor, weight: Tensor) -> Tensor:
    """N x in x n x m to frequencies x N x 2 in, as real numbers of the weight's precision."""
    wide = images.to(torch.promote_types(images.dtype, torch.float32))
    parts = torch.view_as_real(torch.fft.rfft2(wide, norm="ortho")).flatten(2, 3)
    return parts.permute(2, 0, 3, 1).flatten(2).to(weight.dtype)


@fx.wrap
def _back(parts: Tensor, n: int, m: int, like: Tensor) -> Tensor:
    """Frequencies x N x 2 out to N x out x n x m, in the precision of `like`."""
    wide = torch.unflatten(parts.to(torch.promote_types(parts.dtype, torch.float32)), 2, (2, -1))
    waves = torch.view_as_complex(wide.permute(1, 3, 0, 2).contiguous())
    images: Tensor = torch.fft.irfft2(torch.unflatten(waves, 2, (n, -1)), s=(n, m), norm="ortho")
    return images.to(like.dtype)
