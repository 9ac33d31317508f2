"""A smooth random deformation by a few cosine waves."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.errors import UsageError
from shiftproof.perturbations.noise.noise import NOISES
from shiftproof.perturbations.noise.normal import Normal
from shiftproof.perturbations.noise.radii import NOT_ADDED, ONCE, check_shape
from shiftproof.perturbations.warp import positions, warp
from shiftproof.types import Positive

__all__ = ["DCT"]


@NOISES.register("dct", paper="Alfarra et al. 2022", radius="l2 of the coefficients", parameters="2 k k")
@dataclass(frozen=True)
class DCT(Normal):
    """Pixels read at positions moved by k x k cosine waves to each side, with normal coefficients.

    The pixel at (x, y) is read at x + sum of a_ij c_i(x) c_j(y) and y + sum of b_ij c_i(x) c_j(y), where c_i(x) is
    cos(pi i (x + .5 / width)), with the height for y; the parameters are all a_ij, then all b_ij.

    Alfarra et al., "DeformRS: certifying input deformations with randomized smoothing" (2022, arXiv:2107.00996).
    """

    k: Positive = 2

    units: ClassVar[str] = "amplitudes in half image sizes"
    additive: ClassVar[bool] = False

    @property
    def claim(self) -> str:
        """Against which deformations the prediction holds."""
        waves = f"{self.k} x {self.k} cosine waves to each side"
        return f"every deformation by {waves} whose amplitudes' l2 norm is below the radius, {ONCE}, and {NOT_ADDED}"

    def size(self, shape: tuple[int, ...]) -> int:
        """The coefficients of both sides."""
        check_shape(shape)
        if self.k > max(shape[-2:]):
            raise UsageError(
                f"k is {self.k}: images of {shape[-2]} x {shape[-1]} pixels carry no finer waves than that"
            )
        return 2 * self.k * self.k

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """The images deformed."""
        height, width = images.shape[-2:]
        x, y = positions(images)
        # in float64: matrix products of other sizes are summed in another order, and an image must not depend on others
        frequencies = math.pi * torch.arange(self.k, dtype=torch.float64, device=images.device)[:, None]
        across = torch.cos(frequencies * (x + 0.5 / width))
        down = torch.cos(frequencies * (y[:, 0] + 0.5 / height))
        coefficients = parameters.to(images.device, torch.float64).reshape(-1, 2, self.k, self.k)
        moves = torch.einsum("nsij,iw,jh->nhws", coefficients, across, down).to(images)
        return warp(images, moves + torch.stack([x.expand(height, width), y.expand(height, width)], -1))
