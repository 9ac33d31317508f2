"""From texts to tokens."""

from __future__ import annotations

import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shiftproof.perturbations.text import parts_of
from shiftproof.types import Positive

__all__ = ["HashTokeniser", "Tokeniser", "Tokens", "padded"]


class Tokens(NamedTuple):
    """Tokens of N texts, filled up on the right to the longest of them (N x T)."""

    ids: Tensor
    """Whole numbers; anything where there is no token."""
    real: Tensor
    """Where there is a token, special ones included."""
    words: Tensor
    """Where there is a token of the text itself, which an attack may move."""
    cut: Tensor
    """How many tokens of each text did not fit (N)."""
    segment: Tensor
    """Which part of a pair a token belongs to: 0 or 1; 0 in a text that is no pair."""

    def rows(self, chosen: Tensor) -> Tokens:
        """Some of the texts, filled up to the longest of them."""
        part = Tokens(*(column[chosen] for column in self))
        longest = max(1, int(part.real.sum(1).max())) if len(chosen) else 1
        return Tokens(*(column if column.ndim == 1 else column[:, :longest] for column in part))


class Tokeniser(ABC):
    """Turns texts into numbers; a fixed function, a part of its model."""

    length: int
    """How many tokens of a text are read at most, special ones included."""

    @abstractmethod
    def tokens(self, texts: Sequence[str]) -> Tokens:
        """Tokens of texts or pairs of texts; what is beyond the model's length is cut off at the end."""


@dataclass(frozen=True)
class HashTokeniser(Tokeniser):
    """Words and marks, in lower case, numbered by a hash: no vocabulary is learned, and none can be missing.

    Number 0 fills up, 1 begins a text and each part of a pair.
    """

    vocabulary: Positive
    length: Positive

    def tokens(self, texts: Sequence[str]) -> Tokens:
        """Tokens of texts or pairs of texts."""
        numbers = [
            [[1, *(_hashed(word, self.vocabulary) for word in _split(part))] for part in parts_of(text)]
            for text in texts
        ]
        joined = [[number for part in parts for number in part] for parts in numbers]
        cut = [max(0, len(one) - self.length) for one in joined]
        ids = padded([one[: self.length] for one in joined])
        first = torch.tensor([len(parts[0]) for parts in numbers])
        segment = (torch.arange(ids.shape[1]) >= first[:, None]) & (ids > 0)
        return Tokens(ids, ids > 0, ids > 1, torch.tensor(cut), segment.long())


def padded(numbers: Sequence[Sequence[int]]) -> Tensor:
    """Rows of whole numbers as one tensor, filled up with zeros."""
    lengths = np.array([len(one) for one in numbers], np.int64)
    rows = np.zeros((len(numbers), int(lengths.max(initial=1))), np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = [number for one in numbers for number in one]
    return torch.from_numpy(rows)


_TOKEN = re.compile(r"\w+|[^\w\s]")


def _split(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


@lru_cache(1 << 18)
def _hashed(token: str, vocabulary: int) -> int:
    return 2 + zlib.crc32(token.encode()) % vocabulary
