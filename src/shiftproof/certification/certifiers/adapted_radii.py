"""What several smoothed classifiers say together: signed radii, and the sound rule over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from shiftproof.certification.sampling.budget import bounds
from shiftproof.certification.sampling.setting import Setting
from shiftproof.types import FloatArray, IntArray

__all__ = ["Signed", "selection_radius", "signed"]


@dataclass(frozen=True, eq=False)
class Signed:
    """Of one sigma, sample by sample: sigma Phi^-1 of the class's probability from below, of the others' from above."""

    own: FloatArray
    rival: FloatArray
    off_grid: FloatArray

    @property
    def radius(self) -> FloatArray:
        """Half their distance; below 0 where the class is behind."""
        return (self.own - self.rival) / 2 - self.off_grid


def signed(
    setting: Setting,
    count: IntArray,
    rival_count: IntArray,
    drawn: IntArray,
    classes: int,
    off_grid: FloatArray,
) -> Signed:
    """From the votes for a class that was fixed before them."""
    known = bounds(count, rival_count, drawn, setting.n, setting.levels(classes))
    sigma = setting.noise.scale
    return Signed(-sigma * ndtri(known.miss), sigma * ndtri(known.rival), off_grid)


def selection_radius(known: Sequence[Signed]) -> FloatArray:
    """Within which the class of the largest sigma Phi^-1(p) stays: each of these is 1-Lipschitz, so is the largest."""
    own = np.max([one.own for one in known], axis=0)
    rival = np.max([one.rival for one in known], axis=0)
    return np.asarray((own - rival) / 2 - known[0].off_grid)
