"""Translation by a normal displacement."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.perturbations.noise.noise import NOISES
from shiftproof.perturbations.noise.normal import Normal
from shiftproof.perturbations.noise.radii import ONCE, check_shape
from shiftproof.perturbations.warp import affine_warp

__all__ = ["Translation"]


@NOISES.register("translation", paper="Alfarra et al. 2022", radius="l2", parameters="2")
@dataclass(frozen=True)
class Translation(Normal):
    """Translation by two normal numbers of standard deviation `sigma`, in halves of the image's width and height.

    Pixels are read to the right and below by the parameters, so that positive ones move the content left and up.

    Alfarra et al., "DeformRS: certifying input deformations with randomized smoothing" (2022, arXiv:2107.00996).
    """

    units: ClassVar[str] = "half image sizes"
    additive: ClassVar[bool] = False

    @property
    def claim(self) -> str:
        """Against which translations the prediction holds."""
        return f"every translation whose l2 norm ({self.units}) is below the radius, {ONCE}"

    def size(self, shape: tuple[int, ...]) -> int:
        """Two: horizontal and vertical."""
        check_shape(shape)
        return 2

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """The images moved left and up by the parameters."""
        unmoved = torch.eye(2, device=parameters.device, dtype=parameters.dtype).expand(len(parameters), 2, 2)
        return affine_warp(images, torch.cat([unmoved, parameters[:, :, None]], -1))
