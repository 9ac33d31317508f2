"""Convolutions over embedded words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof.models.networks.architecture import MODELS, Architecture
from shiftproof.models.text import HashTokeniser, TextEncoder, Tokens
from shiftproof.types import Positive

__all__ = ["TextCNN"]


@MODELS.register("text-cnn", cost="a few convolutions a text", input="text")
@dataclass(frozen=True)
class TextCNN(Architecture):
    """Convolutions of three widths over embedded words, and the largest answer of each filter; trained from scratch.

    Words are numbered by a hash into `vocabulary` numbers; texts are cut at `length` words and marks. Kim,
    "Convolutional neural networks for sentence classification" (2014, arXiv:1408.5882).
    """

    width: Positive = 64
    filters: Positive = 64
    vocabulary: Positive = 1 << 14
    length: Positive = 256

    kind: ClassVar[str] = "text"

    def encoder(self, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
        """All layers but the last."""
        encoder = _Filters(HashTokeniser(self.vocabulary, self.length), self.vocabulary + 2, self.width, self.filters)
        return encoder, len(_WIDTHS) * self.filters


_WIDTHS = (3, 4, 5)


class _Filters(TextEncoder):
    def __init__(self, tokeniser: HashTokeniser, numbers: int, width: int, filters: int) -> None:
        super().__init__()
        self.tokeniser = tokeniser
        self.embedding = nn.Embedding(numbers, width)
        self.filters = nn.ModuleList(nn.Conv1d(width, filters, size) for size in _WIDTHS)

    def embed(self, tokens: Tokens) -> Tensor:
        return self.embedding(tokens.ids)  # type: ignore[no-any-return]

    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        filled = (embedded * tokens.real[..., None].to(embedded)).transpose(1, 2)
        # every window that begins in the text is seen, with zeros behind its end
        seen = [filter_(F.pad(filled, (0, size - 1))) for size, filter_ in zip(_WIDTHS, self.filters, strict=True)]
        return torch.cat([one.masked_fill(~tokens.real[:, None], -torch.inf).amax(2).relu() for one in seen], 1)
