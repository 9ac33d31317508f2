"""What several smoothed classifiers say together: signed radii, and the rules over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from shiftproof.certification.sampling.budget import bounds
from shiftproof.certification.sampling.setting import Setting
from shiftproof.perturbations.noise import Noise, Uniform
from shiftproof.perturbations.noise.normal import Normal
from shiftproof.types import FloatArray, IntArray

__all__ = ["Rule", "Signed", "answer", "has_score", "joint_choice", "score_of", "selection_radius", "signed"]

Rule = Literal["fixed", "selection", "agreement"]


@dataclass(frozen=True, eq=False)
class Signed:
    """Of one noise, sample by sample: the score of the class's probability from below, of the others' from above.

    Scores (`score_of`) change no faster than the input does.
    """

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
    noise = setting.noise
    if not has_score(noise):
        # of such a noise there is a radius, and nothing to compare with that of another scale
        return Signed(2 * noise.radius(known.miss, known.rival), np.zeros(len(known.miss)), off_grid)
    if isinstance(noise, Uniform):
        return Signed(2 * noise.width * (1 - known.miss), 2 * noise.width * known.rival, off_grid)
    return Signed(-noise.scale * ndtri(known.miss), noise.scale * ndtri(known.rival), off_grid)


def has_score(noise: Noise) -> bool:
    """Whether votes under the noise have a score that can be compared between scales."""
    return isinstance(noise, Uniform) or type(noise).radius is Normal.radius


def score_of(noise: Noise, share: FloatArray) -> FloatArray:
    """A function of a class's probability under a noise that is 1-Lipschitz in the input, in the norm of its radius.

    sigma Phi^-1(p) for normal noise (l2), twice the width times p for uniform noise (l1), whose total variation is at
    most the l1 norm of a change over twice the width.
    """
    if isinstance(noise, Uniform):
        return np.asarray(2 * noise.width * share)
    return np.asarray(noise.scale * ndtri(share))


def selection_radius(known: Sequence[Signed]) -> FloatArray:
    """Within which the class of the largest score stays: each score is 1-Lipschitz, and so is the largest."""
    own = np.max([one.own for one in known], axis=0)
    rival = np.max([one.rival for one in known], axis=0)
    return np.asarray((own - rival) / 2 - known[0].off_grid)


def answer(
    rule: Rule | Literal["as-published"], chosen: IntArray, known: Sequence[Signed]
) -> tuple[IntArray, FloatArray, IntArray]:
    """Class, radius and the noise that shows best, from what is known under each (noises x samples).

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


def joint_choice(noises: Sequence[Noise], votes: IntArray) -> IntArray:
    """The class with the largest score, from votes (noises x images x classes) of which none counts again."""
    share = (votes + 0.5) / (votes.sum(2, keepdims=True) + 0.5 * votes.shape[2])
    scores = np.stack([score_of(noise, own) for noise, own in zip(noises, share, strict=True)])
    classes: IntArray = scores.max(0).argmax(1)
    return classes
