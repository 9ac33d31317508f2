"""Texts behind the first layer of a model, where the embeddings of their tokens can be moved."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.text.encoder import TextEncoder, text_encoder_of
from shiftproof.models.text.tokens import Tokens

__all__ = ["EmbeddedTexts"]


@dataclass(frozen=True, eq=False)
class EmbeddedTexts:
    """N texts as a model's tokens, and the model as a function of where their embeddings are (N x T x D)."""

    model: nn.Module
    encoder: TextEncoder
    rows: Tensor
    tokens: Tokens

    @classmethod
    def of(cls, model: nn.Module, rows: Tensor) -> EmbeddedTexts:
        """Rows of bytes (N x W) as tokens of the one encoder of text in a model."""
        encoder = text_encoder_of(model)
        if encoder is None:
            raise ModelError(
                f"the model ({type(model).__name__}) has no encoder of text, whose embeddings could be moved; texts "
                "take a model such as text-cnn"
            )
        return cls(model, encoder, rows, encoder.tokens(rows))

    @property
    def movable(self) -> Tensor:
        """Where there is a token of the text itself (N x T): padding and special tokens never move."""
        return self.tokens.words

    def embed(self) -> Tensor:
        """Where the embeddings are, N x T x D."""
        return self.encoder.embed(self.tokens)

    def scores(self, points: Tensor) -> Tensor:
        """What the model says where embeddings are at `points` (N x T x D)."""
        return self.read(self.model, points)

    def read(self, part: nn.Module, points: Tensor) -> Tensor:
        """The same for a part of the model that has the encoder in it, such as the encoder itself."""
        with self.encoder.given(points, self.tokens):
            answer: Tensor = part(self.rows)
        return answer

    def hidden(self, points: Tensor) -> Tensor:
        """States of the last layer there, N x T x D, and 0 where there is no token; else representations, N x D."""
        states = self.encoder.hidden(points, self.tokens)
        if states is None:
            return self.encoder.encode(points, self.tokens)
        return torch.where(self.tokens.real[..., None], states, 0)

    def take(self, chosen: Tensor) -> EmbeddedTexts:
        """Some of the texts."""
        # filled up as they are, so that they go with the rows of embeddings
        return replace(self, rows=self.rows[chosen], tokens=Tokens(*(part[chosen] for part in self.tokens)))
