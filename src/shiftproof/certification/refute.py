"""Claims that a class keeps within a radius, put to the test: points inside the ball at which another class wins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shiftproof.attacks.attack import craft
from shiftproof.attacks.pgd import PGD
from shiftproof.certification.certified_classifier import CertifiedClassifier, Mask
from shiftproof.certification.plain_votes import PIXEL_STEPS
from shiftproof.perturbations.norms import ORDERS, Norm, norm_of_ones
from shiftproof.perturbations.threat import Threat
from shiftproof.rng import derive
from shiftproof.types import FloatArray, IntArray

__all__ = ["ATTEMPTS", "DIRECTIONS", "GLANCED", "INSIDE", "Claims", "Refuted", "refute"]

INSIDE = 1 - 1e-3
"""Attacks stay this much inside the ball: float32 rounds distances."""
DIRECTIONS = 4
"""Random points on the surface of the ball that the first attempt tries as well."""
GLANCED = 200
"""Votes that say whether a point is worth all of them."""
ATTEMPTS: tuple[str, ...] = ("margin", "margin", "ce")
"""The losses of gradient ascents, each from a random start of its own."""


@dataclass(frozen=True, eq=False)
class Claims:
    """Of samples (N): the class that is said to win, and within which radius in `norm`; no claim where that is 0."""

    classes: IntArray
    radii: FloatArray
    norm: Norm

    @property
    def made(self) -> Mask:
        """Where there is a claim."""
        made: Mask = (self.classes >= 0) & (self.radii > 0)
        return made


@dataclass(frozen=True, eq=False)
class Refuted:
    """Which claims are refuted, and how far from the sample (in the norm of the claim) the point is that does it."""

    refuted: Mask
    distance: FloatArray


def refute(
    classifier: CertifiedClassifier,
    inputs: Tensor,
    claims: Claims,
    ids: NDArray[np.object_],
    *,
    steps: int,
    level: float,
    seed: int,
) -> Refuted:
    """Look for points in the claimed balls, inside [0, 1], at which the classifier itself answers another class.

    A claim is refuted where votes that no attack has seen show another class at such a point; one that is true is
    called refuted with probability `level` at most, all attempts together. Each point is judged on the grid of
    the noise, alone, so that nothing depends on the other samples; only where a few votes of their own already show
    another class are all of them counted.
    """
    glance = _glance(classifier, derive(seed, "refute glance"))
    refuted, distance = np.zeros(len(inputs), bool), np.full(len(inputs), np.nan)
    # no two images are farther apart than that, whatever is claimed
    radii = np.minimum(claims.radii, norm_of_ones(inputs[0].numel(), claims.norm) if len(inputs) else 0.0)
    for attempt, loss in enumerate(ATTEMPTS):
        rows = np.flatnonzero(claims.made & ~refuted)
        if not len(rows):
            break
        attack = PGD(
            Threat(claims.norm, 1.0),
            steps=steps,
            directions=0 if attempt else DIRECTIONS,
            loss=loss,  # type: ignore[arg-type]
        )
        moved = craft(
            classifier,
            inputs[rows],
            torch.from_numpy(claims.classes[rows]),
            attack,
            radii=torch.from_numpy(radii[rows] * INSIDE),
            ids=ids[rows],
            seed=derive(seed, "refute", attempt),
        )
        for row, point in zip(rows.tolist(), _on_grid(moved), strict=True):
            away = _distance(point, inputs[row], claims.norm)
            # rounding to the grid may have left the ball
            if away > claims.radii[row]:
                continue
            here, claimed = point[None], claims.classes[row : row + 1]
            if glance is not None and glance.judge(here, claimed, 1.0).lead[0] >= 0:
                continue
            if classifier.disproved_at(here, claimed, level / len(ATTEMPTS))[0]:
                refuted[row], distance[row] = True, away
    return Refuted(refuted, distance)


def _glance(classifier: CertifiedClassifier, seed: int) -> CertifiedClassifier | None:
    """The same with few votes, which are not among those that judge; None of one that counts none."""
    quick: Any = classifier
    return replace(quick, votes=GLANCED, seed=seed) if classifier.counts_votes else None


def _on_grid(points: Tensor) -> Tensor:
    """As votes see them."""
    return (torch.round(points.double() * PIXEL_STEPS) / PIXEL_STEPS).to(points.dtype)


def _distance(point: Tensor, sample: Tensor, norm: Norm) -> float:
    return float(np.linalg.norm((point.double() - sample.double()).flatten().numpy(), ORDERS[norm]))
