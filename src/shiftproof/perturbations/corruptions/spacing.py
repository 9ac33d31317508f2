"""Spaces that are missing, or too many."""

from dataclasses import dataclass
from typing import ClassVar

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
from shiftproof.perturbations.corruptions.text_corruption import TextCorruption, word_starts
from shiftproof.types import FloatArray

__all__ = ["Spacing"]

_LONG = 4
"""Letters of a word that may be split."""


@CORRUPTIONS.register("spacing", order="24", group="text", severities="2, 5, 10, 20, 30 % of spaces and of words")
@dataclass(frozen=True)
class Spacing(TextCorruption):
    """Words glued to the next one or split in two: 2 % of spaces and of words at severity 1, 30 % at severity 5.

    2, 5, 10, 20 and 30 % of either; words of four letters or more are split.
    """

    rates: ClassVar[tuple[float, ...]] = (0.02, 0.05, 0.1, 0.2, 0.3)

    def spoil(self, text: str, lots: FloatArray) -> str:
        """The text with other spaces."""
        letters = [
            "" if letter == " " and lot < self.rate else letter for letter, lot in zip(text, lots[:, 0], strict=True)
        ]
        for start, word in zip(word_starts(text), text.split(), strict=True):
            if len(word) >= _LONG and lots[start, 0] < self.rate:
                # before any letter but the first
                place = start + 1 + int(lots[start, 1] * (len(word) - 1))
                letters[place] = f" {letters[place]}"
        return "".join(letters)
