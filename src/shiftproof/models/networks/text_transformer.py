"""A small transformer over words, trained from scratch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from annotated_types import Interval
from torch import Tensor, nn

from shiftproof.errors import ModelError
from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.models.text import HashTokeniser, TextEncoder, Tokens
from shiftproof.types import LayerCount, Positive

__all__ = ["TextTransformer"]


@MODELS.register("text-transformer", cost="attention between all words of a text, a layer", input="text")
@dataclass(frozen=True)
class TextTransformer(Architecture):
    """Attention and dense layers over embedded words, and their mean; trained from scratch.

    Words are numbered by a hash into `vocabulary` numbers; texts are cut at `length` words and marks. Vaswani et al.,
    "Attention is all you need" (2017, arXiv:1706.03762), with normalisation before each part.
    """

    width: Positive = 128
    depth: LayerCount = 2
    heads: Positive = 4
    dropout: Annotated[float, Interval(ge=0, lt=1)] = 0.1
    vocabulary: Positive = 1 << 14
    length: Positive = 256

    kind: ClassVar[str] = "text"

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        if self.width % self.heads:
            raise ModelError(f"a width of {self.width} can't be shared by {self.heads} heads; make it a multiple")
        return _Transformer(self), self.width


class _Transformer(TextEncoder):
    costly = True

    def __init__(self, options: TextTransformer) -> None:
        super().__init__()
        self.tokeniser = HashTokeniser(options.vocabulary, options.length)
        self.embedding = nn.Embedding(options.vocabulary + 2, options.width)
        self.places = nn.Parameter(0.02 * torch.randn(options.length, options.width))
        self.layers = nn.ModuleList(_Layer(options) for _ in range(options.depth))
        self.normalise = nn.LayerNorm(options.width)

    def embed(self, tokens: Tokens) -> Tensor:
        return self.embedding(tokens.ids)  # type: ignore[no-any-return]

    def hidden(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        hidden = embedded + self.places[: embedded.shape[1]]
        for layer in self.layers:
            hidden = layer(hidden, tokens.real)
        return hidden

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        hidden = self.hidden(embedded, tokens)
        real = tokens.real[..., None].to(hidden)
        return self.normalise((hidden * real).sum(1) / real.sum(1))  # type: ignore[no-any-return]


class _Layer(nn.Module):
    def __init__(self, options: TextTransformer) -> None:
        super().__init__()
        width, self.heads = options.width, options.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(options.dropout)

    def forward(self, hidden: Tensor, real: Tensor) -> Tensor:
        parts = self.queries(self.before(hidden)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=real[:, None, None])
        hidden = hidden + self.dropout(self.joined(attended.transpose(1, 2).flatten(2)))
        return hidden + self.dropout(self.dense(self.between(hidden)))  # type: ignore[no-any-return]
