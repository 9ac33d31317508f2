"""The contract of a corruption of text: two random numbers for each character, and what becomes of a text by them."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from shiftproof.perturbations.corruptions.corruption import Constants, Corruption
from shiftproof.perturbations.corruptions.draws import uniform
from shiftproof.perturbations.text import BETWEEN, decode, encode, parts_of, plain
from shiftproof.types import FloatArray

__all__ = ["TextCorruption", "word_starts"]


@dataclass(frozen=True)
class TextCorruption(Corruption):
    """Base of corruptions of text: something that happens to a character or a word with a probability, its `rate`.

    The two parts of a pair are corrupted by themselves. The result is a text as it is kept, with one space between two
    words; it is cut at a word where it would not fit into its row, and a part that would be empty stays as it was.
    """

    kind: ClassVar[str] = "text"
    constants: ClassVar[Constants] = "auto"  # type: ignore[misc]  # no option here: rates do not depend on sizes
    rates: ClassVar[tuple[float, ...]]
    """The probabilities of the five severities."""

    @property
    def rate(self) -> float:
        """The probability of this severity."""
        return self.rates[self.severity - 1]

    @abstractmethod
    def spoil(self, text: str, lots: FloatArray) -> str:
        """What becomes of a text or a part of a pair; `lots` (len(text) x 2) are between 0 and 1, two a character."""

    def size(self, shape: tuple[int, ...]) -> int:
        """Two words for every byte, which is at least two for every character."""
        return 2 * math.prod(shape)

    def apply(self, images: Tensor, words: Tensor) -> Tensor:
        """The texts of N rows of bytes, each with its row of `words`."""
        lots = uniform(words).double().cpu().numpy().reshape(len(words), -1, 2)
        width = images.shape[1]
        texts = [self._spoil_parts(text, own, width) for text, own in zip(decode(images), lots, strict=True)]
        return encode(texts, width).to(images)

    def _spoil_parts(self, text: str, lots: FloatArray, width: int) -> str:
        before, after, place = [plain(part) for part in parts_of(text)], [], 0
        for part in before:
            after.append(plain(self.spoil(part, lots[place : place + len(part)])) or part)
            place += len(part) + 1
        fitting = _cut(after, width)
        return (
            text if any(bool(old) > bool(new) for old, new in zip(before, parts_of(fitting), strict=True)) else fitting
        )


def _cut(parts: list[str], width: int) -> str:
    """The parts in one text of at most `width` bytes: the longest loses words at its end, a single word letters."""
    while len(text := chr(BETWEEN).join(parts).encode()) > width:
        longest = max(range(len(parts)), key=lambda i: len(parts[i].encode()))
        parts[longest] = parts[longest].rpartition(" ")[0] or parts[longest][:-1]
    return text.decode()


def word_starts(text: str) -> list[int]:
    """The places at which words begin.

    >>> word_starts("a good film")
    [0, 2, 7]
    """
    return [i for i, letter in enumerate(text) if letter != " " and (i == 0 or text[i - 1] == " ")]
