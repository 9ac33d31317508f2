"""A normal affine deformation."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.perturbations.noise.noise import NOISES
from shiftproof.perturbations.noise.normal import Normal
from shiftproof.perturbations.noise.radii import NOT_ADDED, ONCE, check_shape
from shiftproof.perturbations.warp import affine_warp

__all__ = ["Affine"]


@NOISES.register("affine", paper="Alfarra et al. 2022", radius="l2 of the parameters", parameters="6")
@dataclass(frozen=True)
class Affine(Normal):
    """Pixels read at an affine function of their position, with six normal coefficients of standard deviation `sigma`.

    The pixel at (x, y) is read at (x + p0 x + p1 y + p2, y + p3 x + p4 y + p5); x runs from -1 to 1 to the right, y
    downwards.

    Alfarra et al., "DeformRS: certifying input deformations with randomized smoothing" (2022, arXiv:2107.00996).
    """

    units: ClassVar[str] = "affine coefficients of positions in half image sizes"
    additive: ClassVar[bool] = False

    @property
    def claim(self) -> str:
        """Against which deformations the prediction holds."""
        return f"every affine deformation with coefficients whose l2 norm is below the radius, {ONCE}, and {NOT_ADDED}"

    def size(self, shape: tuple[int, ...]) -> int:
        """Six coefficients."""
        check_shape(shape)
        return 6

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """The images deformed."""
        unmoved = torch.eye(2, 3, device=parameters.device, dtype=parameters.dtype)
        return affine_warp(images, unmoved + parameters.reshape(-1, 2, 3))
