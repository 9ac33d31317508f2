"""Scaling by a uniform factor."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Interval
from torch import Tensor

from shiftproof.errors import UsageError
from shiftproof.perturbations.noise.noise import NOISES, Law, Noise
from shiftproof.perturbations.noise.radii import NOT_ADDED, ONCE, check_shape, margin
from shiftproof.perturbations.warp import affine_warp
from shiftproof.types import FloatArray

__all__ = ["Scaling"]

_MOST = 10.0


@NOISES.register("scaling", paper="Alfarra et al. 2022", radius="change of the factor, or of its log", parameters="1")
@dataclass(frozen=True)
class Scaling(Noise):
    """Scaling about the centre by 1 + s, or by exp(s) if `log`, with s uniform between -`sigma` and `sigma`.

    Pixels are read farther out by the factor, so that a positive s shrinks the content. Factors exp(s) compose: their
    logs add. Factors 1 + s do not: twice 1.5 is 2.25, not 2.

    Alfarra et al., "DeformRS: certifying input deformations with randomized smoothing" (2022, arXiv:2107.00996).
    """

    sigma: Annotated[float, Interval(gt=0, le=_MOST)]
    log: bool = False

    law: ClassVar[Law] = "uniform"
    additive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.log and self.sigma >= 1:
            raise UsageError(f"sigma is {self.sigma!r}; it should be above 0 and below 1, unless log is true")

    @property
    def norm(self) -> str:
        """Distance of factors, or of their logs."""
        return "log factor" if self.log else "factor"

    @property
    def units(self) -> str:
        """Of that distance."""
        return "log of the scale factor" if self.log else "change of the scale factor"

    @property
    def scale(self) -> float:
        """Sigma."""
        return self.sigma

    @property
    def claim(self) -> str:
        """Against which factors the prediction holds."""
        if self.log:
            return f"every scaling by a factor between exp(-radius) and exp(radius), {ONCE}"
        return f"every scaling by a factor between 1 - radius and 1 + radius, {ONCE}, and {NOT_ADDED}"

    def size(self, shape: tuple[int, ...]) -> int:
        """One number."""
        check_shape(shape)
        return 1

    def apply(self, images: Tensor, parameters: Tensor) -> Tensor:
        """The images shrunk by the factor."""
        factor = parameters[:, 0].exp() if self.log else 1 + parameters[:, 0]
        unscaled = torch.eye(2, 3, device=parameters.device, dtype=parameters.dtype)
        return affine_warp(images, factor[:, None, None] * unscaled)

    def radius(self, miss: FloatArray, rival: FloatArray) -> FloatArray:
        """Sigma times the margin."""
        return self.sigma * margin(miss, rival)
