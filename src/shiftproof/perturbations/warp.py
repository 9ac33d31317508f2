"""Geometric deformations of images by one bilinear interpolation."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["rotate"]


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Images (N x C x H x W) turned counter-clockwise about their centre; what comes from outside is 0.

    >>> image = torch.rand(1, 1, 8, 8)
    >>> bool((rotate(image, 0) - image).abs().max() < 1e-5)
    True
    """
    angle = math.radians(degrees)
    height, width = images.shape[-2:]
    # coordinates run from -1 to 1 along both sides: in an oblong image the two units differ
    aspect = max(height - 1, 1) / max(width - 1, 1)
    cosine, sine = math.cos(angle), math.sin(angle)
    matrix = torch.tensor([[cosine, -sine * aspect, 0.0], [sine / aspect, cosine, 0.0]])
    matrix = matrix.to(images).expand(len(images), 2, 3)
    # align_corners on both sides: without it a zero angle is not the identity
    grid = F.affine_grid(matrix, list(images.shape), align_corners=True)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
