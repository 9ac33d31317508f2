"""Operator norms of matrices and convolutions, in float64."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from shiftproof.models.lipschitz.fourier import spectrum
from shiftproof.perturbations.threat import Norm

__all__ = ["Shape", "convolution_norm", "matrix_norm", "spectral_norm"]

Shape = tuple[int, ...]

_ROUNDING = 1 + 1e-12
"""What the largest eigenvalue may lose to rounding; an upper bound must not."""


def spectral_norm(matrices: Tensor) -> float:
    """The largest singular value of any of the matrices (... x out x in, real or complex)."""
    matrices = matrices.detach().to(torch.complex128 if matrices.is_complex() else torch.float64)
    if not bool(matrices.isfinite().all()):
        return math.nan
    tall = matrices.shape[-2] > matrices.shape[-1]
    # of the smaller product: it loses digits of small singular values, none of the largest
    gram = matrices.mH @ matrices if tall else matrices @ matrices.mH
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh(gram).max()))) * _ROUNDING


def matrix_norm(matrix: Tensor, norm: Norm) -> float:
    """The norm of a matrix (out x in) from `norm` to `norm`: l2 spectral, linf by rows, l1 by columns."""
    if norm == "l2":
        return spectral_norm(matrix)
    return float(matrix.detach().double().abs().sum(1 if norm == "linf" else 0).max())


def convolution_norm(
    kernel: Tensor, image: tuple[int, int], norm: Norm, *, stride: tuple[int, int] = (1, 1), groups: int = 1
) -> float:
    """An upper bound of the norm of a convolution with `kernel` (out x in/groups x k x k) and zero padding, if any.

    In l2 it is that of the circular convolution on a torus on which the kernel can't meet itself around `image`: a
    zero-padded convolution computes some of its outputs from some of its inputs. Every stride-th output hears all
    frequencies that it can't tell apart at once.
    """
    kernel = kernel.detach().double()
    if norm == "linf":
        return float(kernel.abs().sum((1, 2, 3)).max())
    grouped = torch.unflatten(kernel, 0, (groups, -1))
    if norm == "l1":
        # an input meets every stride-th tap only
        missing = [-size % step for size, step in zip(kernel.shape[-2:], stride, strict=True)]
        taps = F.pad(grouped.abs(), (0, missing[1], 0, missing[0]))
        taps = torch.unflatten(torch.unflatten(taps, 4, (-1, stride[1])), 3, (-1, stride[0]))
        return float(taps.sum((1, 3, 5)).max())
    return max(_torus_norm(one, image, stride) for one in grouped)


def _torus_norm(kernel: Tensor, image: tuple[int, int], stride: tuple[int, int]) -> float:
    sizes = [n + k - 1 for n, k in zip(image, kernel.shape[-2:], strict=True)]
    n, m = (size + -size % step for size, step in zip(sizes, stride, strict=True))
    waves = spectrum(kernel, (n, m), half=False)
    # frequency j * n / stride + g looks like g to whoever sees every stride-th pixel
    waves = torch.unflatten(torch.unflatten(waves, 1, (stride[1], -1)), 0, (stride[0], -1))
    waves = waves.permute(1, 3, 4, 0, 2, 5).flatten(3)
    # the other half are conjugates
    half = waves[:, : waves.shape[1] // 2 + 1]
    return spectral_norm(half) / math.sqrt(stride[0] * stride[1])
