"""The worst deformation of an image within a ball of parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from shiftproof.attacks.contract import ATTACKS, Attack, batches
from shiftproof.attacks.losses import margin
from shiftproof.attacks.pgd import Best
from shiftproof.attacks.result import Found
from shiftproof.attacks.victim import Smoothed, Victim, max_batch_size
from shiftproof.errors import ModelError
from shiftproof.perturbations.deformation import Deformation, DeformationOption
from shiftproof.rng import numpy_generator
from shiftproof.types import MOST, FloatArray, Natural

__all__ = ["INSIDE", "OUTSIDE", "Spatial"]

INSIDE = (
    "parameters are added to those of the noise, inside its one interpolation of the clean image, as certificates of "
    "this noise state it"
)
OUTSIDE = "images are handed in deformed"

_FINER = {1: 0.25, 2: 0.4}
"""By how much a round of refinement narrows the search in so many dimensions; in more it goes in other directions."""
_FINER_ELSEWHERE = 0.7
_GOLDEN = (math.sqrt(5) - 1) / 2
_TOGETHER = 10
"""Deformations of a sample that are tried before it may leave: always the same ones, whatever its company."""


@ATTACKS.register(
    "spatial",
    paper="Engstrom et al. 2019; Alfarra et al. 2022",
    cost="grid + rounds x grid / 2 forward a sample",
    needs="images, and a deformation for a threat",
)
@dataclass(frozen=True)
class Spatial(Attack):
    """The worst of a grid of deformations within the threat, then of finer ones around it: `Spatial("rotation:0.3")`.

    The grid has about `grid` points: an even line with both ends, rings, or in more than two dimensions fixed
    directions; each of the `rounds` tries half as many nearer and nearer to the worst so far. Worst is the largest
    margin of another class. Nothing is random: a sample has the same result in any company and with any seed.

    The vote under a noise that deforms in the same way is attacked inside its one interpolation, where certificates
    hold; any other classifier is handed the deformed image.

    Grids: Engstrom et al., "Exploring the landscape of spatial robustness" (2019, arXiv:1712.02779); deformations:
    Alfarra et al., "DeformRS: certifying input deformations with randomized smoothing" (2022, arXiv:2107.00996).
    """

    threat: DeformationOption
    grid: Annotated[int, Interval(ge=2, le=MOST)] = 40
    rounds: Natural = 6
    early_exit: bool = True

    clip: ClassVar[bool] = False

    @property
    def passes(self) -> int:
        """Scores for one sample, about."""
        return self.grid + self.rounds * self._finer

    @property
    def _finer(self) -> int:
        return max(2, self.grid // 2)

    def how(self, victim: Victim) -> str:
        """What the victim is given."""
        return INSIDE if _inside(victim, self.threat) else OUTSIDE

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """The images deformed by what was found."""
        return self._deformed(inputs, self.worst(victim, inputs, labels, eps))

    def overturn(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Found:
        """The worst deformations found, and what the victim answers to them."""
        parts = [self._judged(victim, inputs[rows], labels[rows], eps[rows]) for rows in batches(inputs, victim)]
        return Found.joined(parts)

    def _deformed(self, inputs: Tensor, parameters: Tensor) -> Tensor:
        with torch.no_grad():
            return self.threat.apply(inputs, parameters)

    def _judged(self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor) -> Found:
        parameters = self.worst(victim, inputs, labels, eps)
        deformed = self._deformed(inputs, parameters)
        if _inside(victim, self.threat):
            counts = victim.counts(inputs, parameters.double().cpu().numpy())  # type: ignore[attr-defined]
            answers = torch.from_numpy(counts.argmax(1)).to(inputs.device)
        else:
            answers = victim.answers(deformed)
        return Found(deformed, answers, self.threat.size(parameters), parameters)

    def worst(self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor) -> Tensor:
        """The parameters (N x size) within the radii `eps` (N) of highest margin that the search finds."""
        size = self.threat.parameters(tuple(inputs.shape[1:]))
        best = Best(inputs.new_zeros(len(inputs), size))
        order = "l1" if self.threat.norm == "l1" else "l2"
        grid, step = _grid(size, self.grid, order)
        self._try(victim, inputs, labels, eps, best, grid, 1.0)
        for number in range(self.rounds):
            around, _ = _grid(size, self._finer, order, number + 1)
            self._try(victim, inputs, labels, eps, best, around, step)
            step *= _FINER.get(size, _FINER_ELSEWHERE)
        return best.points

    def _try(
        self,
        victim: Victim,
        inputs: Tensor,
        labels: Tensor,
        eps: Tensor,
        best: Best,
        steps: FloatArray,
        reach: float,
    ) -> None:
        """Try the points at `steps` (count x size) times `reach` times each radius from the best so far."""
        centres, moves = best.points.clone(), torch.from_numpy(steps).to(inputs) * reach
        # no gradient is kept, which leaves room for more
        fitting = max(1, 4 * max_batch_size(tuple(inputs.shape[1:]), victim.passes) // _TOGETHER)
        for some in torch.split(moves, _TOGETHER):
            left = best.rows[~best.wrong] if self.early_exit and victim.exact else best.rows
            for rows in torch.split(left, fitting) if len(left) else ():
                points = (centres[rows][:, None] + eps[rows][:, None, None] * some).flatten(0, 1)
                points = self.threat.project(points, eps[rows].repeat_interleave(len(some)))
                losses, wrong = self._evaluate(victim, inputs[rows], labels[rows], points)
                # of those that mislead the worst, else the worst of all
                found = torch.where(wrong, losses.clamp(min=0) + 1, losses.clamp(max=0)).argmax(1, keepdim=True)
                each = torch.arange(len(rows), device=points.device)
                points = points.view(len(rows), len(some), -1)[each, found[:, 0]]
                best.update(rows, points, losses.gather(1, found)[:, 0], wrong.gather(1, found)[:, 0])

    def _evaluate(self, victim: Victim, images: Tensor, labels: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Margins, and which are misclassified, of N images under all of their deformations (each N x count)."""
        count = len(parameters) // len(images)
        copies, own = images.repeat_interleave(count, 0), labels.repeat_interleave(count)
        with torch.no_grad():
            scores = self._scores(victim, copies, parameters).double()
        if bool(scores.isnan().any()):
            raise ModelError("the model returns values that are not numbers (NaN)")
        return margin(scores, own).view(-1, count), (scores.argmax(1) != own).view(-1, count)

    def _scores(self, victim: Victim, images: Tensor, parameters: Tensor) -> Tensor:
        if _inside(victim, self.threat):
            return victim.scores(images, parameters)  # type: ignore[call-arg]
        return victim.scores(self.threat.apply(images, parameters))


def _inside(victim: Victim, threat: Deformation) -> bool:
    return isinstance(victim, Smoothed) and threat.matches(victim.noise)


@lru_cache
def _grid(size: int, count: int, order: str, turn: int = 0) -> tuple[FloatArray, float]:
    """About `count` points (count x size) of the ball of radius 1, the farthest ones first, and how far apart they are.

    A line, rings that are as far from each other as their points, or fixed directions with their opposites, others at
    every `turn`.
    """
    if size == 1:
        line = np.linspace(-1, 1, count)
        return line[np.argsort(-np.abs(line), kind="stable")][:, None], 2 / (count - 1)
    if size == 2 and order == "l2":
        rings = max(1, round(math.sqrt(count / math.pi) - 0.5))
        angles = [2 * math.pi * (np.arange(n) + 0.5 * (n % 2)) / n for n in (_around(k) for k in range(rings, 0, -1))]
        radii = np.repeat(np.arange(rings, 0, -1) / rings, [len(ring) for ring in angles])
        around = np.concatenate(angles)
        return radii[:, None] * np.stack([np.cos(around), np.sin(around)], 1), 1 / rings
    axes = np.concatenate([np.eye(size), -np.eye(size)])[:count]
    drawn = numpy_generator(0, "spatial", size, count, turn).standard_normal(((count - len(axes) + 1) // 2, size))
    drawn /= np.linalg.norm(drawn, 1 if order == "l1" else 2, axis=1)[:, None]
    # half of them on the surface; the others spread over the inside
    depth = np.where(np.arange(len(drawn)) % 2 == 0, 1.0, (np.arange(len(drawn)) * _GOLDEN % 1) ** (1 / size))
    inner = drawn * depth[:, None]
    return np.concatenate([axes, inner, -inner])[:count], 0.5


def _around(ring: int) -> int:
    return max(4, round(2 * math.pi * ring))
