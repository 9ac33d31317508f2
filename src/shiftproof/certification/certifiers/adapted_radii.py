"""What several smoothed classifiers say together: signed radii, and the rules over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from shiftproof.certification.sampling.budget import bounds
from shiftproof.certification.sampling.setting import Setting
from shiftproof.types import FloatArray, IntArray

__all__ = ["Rule", "Signed", "answer", "joint_choice", "selection_radius", "signed"]

Rule = Literal["fixed", "selection", "agreement"]


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


def answer(
    rule: Rule | Literal["as-published"], chosen: IntArray, known: Sequence[Signed]
) -> tuple[IntArray, FloatArray, IntArray]:
    """Class, radius and the sigma that shows best, from what is known at every sigma (sigmas x samples).

    The published rule, the largest radius of all for each sample, is no certificate.
    """
    radii = np.stack([one.radius for one in known])
    best = radii.argmax(0)
    if rule == "as-published":
        return chosen[best, np.arange(chosen.shape[1])], radii.max(0), best
    if rule == "agreement":
        agree = (chosen == chosen[0]).all(0)
        return chosen[0], np.where(agree, radii.min(0), 0.0), best
    return chosen[0], selection_radius(known), best


def joint_choice(sigmas: Sequence[float], votes: IntArray) -> IntArray:
    """The class with the largest sigma Phi^-1(p), from votes (sigmas x images x classes) of which none counts again."""
    share = (votes + 0.5) / (votes.sum(2, keepdims=True) + 0.5 * votes.shape[2])
    scores = ndtri(share) * np.asarray(sigmas)[:, None, None]
    classes: IntArray = scores.max(0).argmax(1)
    return classes
