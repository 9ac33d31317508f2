"""Texts behind the first layer of a model, where the embeddings of their tokens can be moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.text.encoder import TextEncoder, text_encoder_of
from shiftproof.models.text.tokens import Tokens
from shiftproof.perturbations.noise import Noise

__all__ = ["EmbeddedTexts", "embedding_shape", "noise_shape"]


@dataclass(frozen=True, eq=False)
class EmbeddedTexts:
    """N texts as a model's tokens, and the model as a function of where their embeddings are (N x T x D)."""

    model: nn.Module
    encoder: TextEncoder
    rows: Tensor
    tokens: Tokens

    exact: ClassVar[bool] = True
    """Whether the largest score is always the answer."""

    @classmethod
    def of(cls, model: nn.Module, rows: Tensor) -> EmbeddedTexts:
        """Rows of bytes (N x W) as tokens of the one encoder of text in a model."""
        encoder = _encoder_of(model)
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

    def answers(self, points: Tensor) -> Tensor:
        """The class that it gives there (N)."""
        return self.scores(points).argmax(1)

    def read(self, part: nn.Module, points: Tensor) -> Tensor:
        """The same for a part of the model that has the encoder in it, such as the encoder itself."""
        with self.encoder.given(points, self.tokens):
            answer: Tensor = part(self.rows)
        return answer

    def moved(self, changes: Tensor) -> Tensor:
        """What the model says of texts whose own tokens are moved by `changes` (k N x L x D, or k N x L D).

        Each text has k changes, one after the other. They are for as many tokens as the model can read; those of places
        where a text has no token of its own do nothing.
        """
        start = self.embed()
        count, length, width = start.shape
        own = changes.reshape(count, -1, changes[0].numel() // width, width)[:, :, :length].to(start)
        if own.shape[2] < length:
            raise ModelError(f"a text has {length} tokens, but the model's tokeniser says that it reads {own.shape[2]}")
        points = start[:, None] + torch.where(self.movable[:, None, :, None], own, 0)
        rows = torch.arange(count, device=start.device).repeat_interleave(own.shape[1])
        return self.take(rows).scores(points.flatten(0, 1))

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


def noise_shape(noise: Noise, model: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what a noise is drawn for: inputs, or embeddings of as many tokens as the model can read.

    It does not depend on the texts, so that the draws of one are the same whatever others there are.
    """
    return embedding_shape(model) if noise.embedded else shape


def embedding_shape(model: nn.Module) -> tuple[int, int]:
    """How many tokens a model of text reads at most, and how long the embedding of each is."""
    encoder = _encoder_of(model)
    length = getattr(encoder.tokeniser, "length", None)
    if not isinstance(length, int):
        name = type(encoder.tokeniser).__name__
        raise ModelError(f"the model's tokeniser ({name}) has no `length`: how many tokens of a text it reads at most")
    with torch.no_grad():
        return length, encoder.embed(encoder.tokens(torch.zeros(1, 1))).shape[-1]


def _encoder_of(model: nn.Module) -> TextEncoder:
    encoder = text_encoder_of(model)
    if encoder is None:
        raise ModelError(
            f"the model ({type(model).__name__}) has no encoder of text, whose embeddings could be moved; texts "
            "take a model such as text-cnn"
        )
    return encoder
