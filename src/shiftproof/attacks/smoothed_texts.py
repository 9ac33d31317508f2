"""Texts whose embeddings are moved, as a majority vote under noise on the embeddings sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.attacks.victim import Smoothed
from shiftproof.models.text import EmbeddedTexts, embedding_shape

__all__ = ["SmoothedTexts"]


@dataclass(frozen=True, eq=False)
class SmoothedTexts(EmbeddedTexts):
    """N texts, and the vote as a function of where their embeddings are; noise is added to what was moved."""

    victim: Smoothed

    exact: ClassVar[bool] = False

    @classmethod
    def seen_by(cls, victim: Smoothed, rows: Tensor) -> SmoothedTexts:
        """Rows of bytes (N x W) as the vote of a network sees them."""
        texts = EmbeddedTexts.of(victim.model, rows)
        return cls(texts.model, texts.encoder, texts.rows, texts.tokens, victim)

    def scores(self, points: Tensor) -> Tensor:
        """Scores of the vote (N x classes) where embeddings are at `points` (N x T x D), differentiable."""
        return self.victim.scores(self.rows, self.shifts(points))

    def answers(self, points: Tensor) -> Tensor:
        """The class with most votes there."""
        counts = self.victim.counts(self.rows, self.shifts(points).detach().double().cpu().numpy())
        return torch.from_numpy(counts.argmax(1)).to(points.device)

    def shifts(self, points: Tensor) -> Tensor:
        """How far tokens are from where they were, with room for as many as the model reads: N x size of the noise."""
        length, width = embedding_shape(self.model)
        moved = torch.where(self.movable[..., None], points - self.embed(), 0)
        filled = torch.nn.functional.pad(moved, (0, 0, 0, length - moved.shape[1]))
        return filled.reshape(len(points), length * width)
