"""How far the hidden states of a text can be moved by moving its embeddings a little."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from shiftproof.attacks.ascent import climb
from shiftproof.attacks.embedded_steps import step_embedded
from shiftproof.attacks.pgd import Best
from shiftproof.models.text import EmbeddedTexts
from shiftproof.perturbations.embedding import EmbeddingThreat

__all__ = ["move_hidden_states"]


def move_hidden_states(
    texts: EmbeddedTexts, threat: EmbeddingThreat, steps: int, step: float, generators: Sequence[torch.Generator]
) -> Tensor:
    """Embeddings (N x T x D) inside the threat whose hidden states are far from those of the texts; model frozen.

    Steps up the distance between the two, from a random start: at the text itself the distance is 0 and has no slope.
    The farthest on the way is kept.
    """
    start = texts.embed().detach()
    with torch.no_grad():
        before = texts.hidden(start)
    eps, best = start.new_full((len(start),), threat.eps), Best(start)
    length, right = torch.full_like(eps, step), torch.zeros(len(start), dtype=torch.bool, device=start.device)

    def evaluate(rows: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
        points = points.detach().requires_grad_()
        moved = (texts.take(rows).hidden(points) - before[rows]).double().flatten(1)
        # one factor a text, which changes no direction, so that squares of small changes do not vanish in float32
        peak = moved.detach().abs().amax(1, keepdim=True)
        distances = (moved / torch.where(peak > 0, peak, 1)).square().sum(1)
        best.update(rows, points, moved.detach().norm(dim=1), right[rows])
        return torch.autograd.grad(distances.sum(), points)[0], right[rows]

    def move(rows: Tensor, points: Tensor, gradient: Tensor, number: int) -> Tensor:
        return step_embedded(points, start[rows], texts.movable[rows], gradient, length[rows], threat, eps[rows])

    with torch.enable_grad():
        points = start + threat.random_start(texts.movable, start.shape[-1], eps, generators)
        rows, points = climb(points, steps, evaluate, move)
        evaluate(rows, points)
    return best.points
