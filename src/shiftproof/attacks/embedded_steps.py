"""Steps of an attack in the embeddings of texts: inside the threat, and of the texts' own tokens only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from shiftproof.attacks.ascent import Rule, climb_losses, direction, in_double, usual_step
from shiftproof.attacks.victim import frozen, max_batch_size
from shiftproof.execution.compute import TrainingPrecision
from shiftproof.models.text import EmbeddedTexts
from shiftproof.perturbations.embedding import EmbeddingThreat

__all__ = ["ascend_embedded", "attackable_texts", "step_embedded", "step_lengths", "text_batches"]


def step_lengths(threat: EmbeddingThreat, eps: Tensor, steps: int, step: float | None) -> Tensor:
    """How long a step is within each of the radii `eps` (N): 2.5 eps / `steps` (l1: 7.5), unless told."""
    return usual_step(threat.order, eps, max(1, steps)) if step is None else torch.full_like(eps, step)


def step_embedded(
    points: Tensor,
    start: Tensor,
    movable: Tensor,
    gradient: Tensor,
    length: Tensor,
    threat: EmbeddingThreat,
    eps: Tensor,
    rule: Rule = "steepest",
) -> Tensor:
    """Points (N x T x D) one step of `length` (N) up their gradients, within `eps` (N) of their `start`.

    Where there is no `movable` token (N x T) nothing changes: what the gradient is there does not count in its norm.
    """
    slopes = threat.units_of(torch.where(movable[..., None], gradient, 0))
    heading = direction(slopes, threat.order, rule).reshape(points.shape)
    return start + threat.project(points - start + length[:, None, None] * heading, eps)


def ascend_embedded(
    texts: EmbeddedTexts,
    scores: Callable[[Tensor], Tensor],
    losses: Callable[[Tensor], Tensor],
    threat: EmbeddingThreat,
    steps: int,
    generator: torch.Generator,
    *,
    step: float | None = None,
    rule: Rule = "steepest",
    random_start: bool = True,
) -> Tensor:
    """Where `steps` steps up the losses lead from the texts' embeddings (N x T x D): `ascend`, for texts.

    `scores` are those of `attackable_texts`. A batch draws from one generator; `EmbeddingPGD` is for measuring.
    """
    start = points = texts.embed().detach()
    if threat.eps == 0:
        return start
    eps = start.new_full((len(start),), threat.eps)
    length = step_lengths(threat, eps, steps, step)
    if random_start:
        points = start + threat.random_start(texts.movable, start.shape[-1], eps, [generator] * len(start))

    def move(rows: Tensor, points: Tensor, gradient: Tensor, number: int) -> Tensor:
        return step_embedded(points, start, texts.movable, gradient, length, threat, eps, rule)

    return climb_losses(scores, losses, points, steps, move, rule)


@contextmanager
def attackable_texts(
    model: nn.Module, rows: Tensor, precision: TrainingPrecision = "f32"
) -> Iterator[tuple[EmbeddedTexts, Callable[[Tensor], Tensor]]]:
    """Texts, and the model as a function of their embeddings alone: `attackable`, for texts."""
    with frozen(model):
        texts = EmbeddedTexts.of(model, rows)
        yield texts, in_double(texts.scores, rows, precision)


def text_batches(texts: EmbeddedTexts, passes: int = 1) -> Sequence[Tensor]:
    """Numbers of texts that are attacked together: as many as fit with the embeddings of the longest.

    `passes` are those of the network for the scores of one text.
    """
    every = torch.arange(len(texts.rows))  # on the CPU: places
    width = texts.take(every[:1]).embed().shape[-1]
    return torch.split(every, max_batch_size((texts.movable.shape[1], width), passes))
