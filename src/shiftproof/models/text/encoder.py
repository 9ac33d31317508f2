"""What all encoders of text have in common: rows of bytes in, one representation a text out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor, nn

from shiftproof.domains import Domain, Domains
from shiftproof.errors import ModelError
from shiftproof.models.text.tokens import Tokeniser, Tokens
from shiftproof.perturbations.text import decode

__all__ = ["TextEncoder", "check_takes", "text_encoder_of"]

GROUP_TOKENS = 2048
"""Tokens that are read at once, those that fill up included: what a larger batch computes does not stay in caches."""
FEWEST_TOKENS, STRETCH = 256, 1.25
"""Groups are of texts whose lengths differ by less than this factor, unless they have fewer tokens."""


class TextEncoder(nn.Module, ABC):
    """Rows of bytes (N x W) to representations (N x D); any row is a text, an empty one too.

    `embed` and `encode` are its two halves, so that an attack or a noise can act on the embeddings of tokens between
    them. What it says of a text does not depend on the others of its batch, nor on how far they are filled up.
    """

    tokeniser: Tokeniser
    costly: ClassVar[bool] = False
    """Whether a token costs so much that texts of like length are read together in training, too."""
    _given: tuple[Tensor, Tokens] | None = None

    @abstractmethod
    def embed(self, tokens: Tokens) -> Tensor:
        """Embeddings of tokens, N x T x D; nothing that depends on their places is added yet."""

    @abstractmethod
    def encode(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        """Representations (N x D) of embedded tokens."""

    def hidden(self, embedded: Tensor, tokens: Tokens) -> Tensor | None:
        """States of the last layer for every token, N x T x D; None where there is no such layer."""
        return None

    def neighbours(self, word: str, count: int) -> list[str]:
        """Words of its vocabulary whose embeddings are nearest to that of a word; none where it has no vocabulary."""
        return []

    def tokens(self, rows: Tensor) -> Tokens:
        """The tokens of rows of bytes, on the model's device."""
        place = next(self.parameters()).device
        return Tokens(*(part.to(place) for part in self.tokeniser.tokens(decode(rows))))

    @contextmanager
    def given(self, embedded: Tensor, tokens: Tokens) -> Iterator[None]:
        """Inside the block it reads these embedded tokens, whatever rows it is called with.

        So that a whole model, whatever is around its encoder, becomes a function of embeddings: `EmbeddedTexts`.
        """
        before, self._given = self._given, (embedded, tokens)
        try:
            yield
        finally:
            self._given = before

    @contextmanager
    def embedding_replaced(self, embedded: Tensor) -> Iterator[None]:
        """Inside the block its own layer gives these embeddings (1 x T x D), whoever asks: of one text, for checks."""
        vars(self)["embed"] = lambda tokens: embedded
        try:
            yield
        finally:
            del vars(self)["embed"]

    def forward(self, rows: Tensor) -> Tensor:
        """Representations of texts."""
        if self._given is not None:
            return self._read_alike(*self._checked(rows, *self._given))
        tokens = self.tokens(rows)
        if self.training or torch.is_grad_enabled() or len(rows) < 2:
            return self._read_alike(self.embed(tokens), tokens)
        # texts that are thinned to a few words are often the same: each is read once, beside others of its length
        ids = torch.where(tokens.real, tokens.ids * (1 + tokens.segment.max()) + tokens.segment, -1)
        _, place = torch.unique(ids, dim=0, return_inverse=True)
        first = torch.full((int(place.max()) + 1,), len(rows)).scatter_reduce(
            0, place.cpu(), torch.arange(len(rows)), "amin"
        )
        lengths, order = tokens.real.sum(1).cpu()[first].sort(stable=True)
        groups = [tokens.rows(first[order[start:end]].to(ids.device)) for start, end in _groups(lengths.tolist())]
        read = torch.cat([self.encode(self.embed(group), group) for group in groups])
        return read[order.argsort().to(ids.device)[place]]

    def _read_alike(self, embedded: Tensor, tokens: Tokens) -> Tensor:
        """Representations of embedded tokens, of texts of like length at a time if tokens are `costly`."""
        if not self.costly or len(embedded) < 2:
            return self.encode(embedded, tokens)
        lengths, order = tokens.real.sum(1).sort(stable=True)
        read = []
        for start, end in _groups(lengths.tolist(), math.inf):
            group = tokens.rows(order[start:end])
            read.append(self.encode(embedded[order[start:end], : group.ids.shape[1]], group))
        return torch.cat(read)[order.argsort()]

    @staticmethod
    def _checked(rows: Tensor, embedded: Tensor, tokens: Tokens) -> tuple[Tensor, Tokens]:
        if len(rows) != len(embedded):
            raise ModelError(
                f"the model hands {len(rows)} texts to its encoder where it was given {len(embedded)}, so that their "
                "embeddings can't be moved"
            )
        return embedded, tokens


def _groups(lengths: Sequence[int], most: float = GROUP_TOKENS) -> Iterator[tuple[int, int]]:
    """Where groups of texts of like length begin and end, of rows that are sorted by their length.

    With all that fills them up they have `most` tokens, unless one text has more.
    """
    start = 0
    for row, length in enumerate(lengths):
        differs = length > STRETCH * lengths[start] and (row - start) * lengths[row - 1] >= FEWEST_TOKENS
        if differs or (row > start and (row + 1 - start) * length > most):
            yield start, row
            start = row
    yield start, len(lengths)


def check_takes(model: nn.Module, domains: Domains | Domain) -> None:
    """Refuse a model of text for images, which would be bytes 0 and 1 to it."""
    if domains.kind != "text" and text_encoder_of(model) is not None:
        raise ModelError(f"the model reads text, and {domains.name!r} holds {domains.kind} data")


def text_encoder_of(model: nn.Module) -> TextEncoder | None:
    """The part of a model that reads text; None if there is none."""
    return next((part for part in model.modules() if isinstance(part, TextEncoder)), None)
