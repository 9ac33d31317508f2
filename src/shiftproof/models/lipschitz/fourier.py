"""Circular convolution as one matrix a frequency."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["circulate", "kernel_of", "spectrum"]


def spectrum(kernel: Tensor, size: tuple[int, int], *, half: bool = True) -> Tensor:
    """What the circular convolution of images n x m with `kernel` (out x in x k x k) does to each frequency.

    The kernel lies with its middle on the origin and wraps around if it is larger than the image. The result is
    n x columns x out x in, complex; columns are the m // 2 + 1 that a real image needs, or all m.
    """
    (n, m), (height, width) = size, kernel.shape[-2:]
    rows, columns = _angles(n, height, n), _angles(m, width, m // 2 + 1 if half else m)
    angles = (rows[:, None, :, None] + columns[None, :, None, :]).flatten(2).flatten(0, 1)
    taps = kernel.flatten(2).flatten(0, 1).T
    cosines, sines = (wave(angles).to(kernel) @ taps for wave in (torch.cos, torch.sin))
    return torch.complex(cosines, sines).view(n, -1, *kernel.shape[:2])


def _angles(size: int, taps: int, count: int) -> Tensor:
    """For `count` frequencies and each tap the angle by which a wave turns from the origin to the tap, float64."""
    turns = torch.outer(torch.arange(count), torch.arange(taps) - taps // 2)
    return 2 * math.pi / size * turns.remainder(size).double()


def circulate(matrices: Tensor, inputs: Tensor) -> Tensor:
    """The convolution of `inputs` (N x in x n x m) whose half spectrum is `matrices`: N x out x n x m."""
    n, m = inputs.shape[-2:]
    waves = torch.fft.rfft2(inputs).permute(2, 3, 0, 1) @ matrices.mT
    # without s, an odd width would come back one column short
    images: Tensor = torch.fft.irfft2(waves.permute(2, 3, 0, 1), s=(n, m))
    return images


def kernel_of(matrices: Tensor, size: tuple[int, int]) -> Tensor:
    """The kernel (out x in x n x m) of a half spectrum, with its middle in the corner."""
    kernel: Tensor = torch.fft.irfft2(matrices.permute(2, 3, 0, 1), s=size)
    return kernel
