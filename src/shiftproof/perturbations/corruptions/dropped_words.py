"""Words that are left out."""

from dataclasses import dataclass
from typing import ClassVar

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
from shiftproof.perturbations.corruptions.text_corruption import TextCorruption, word_starts
from shiftproof.types import FloatArray

__all__ = ["DroppedWords"]


@CORRUPTIONS.register("dropped-words", order="25", group="text", severities="5, 10, 20, 30, 40 % of words")
@dataclass(frozen=True)
class DroppedWords(TextCorruption):
    """Words left out: 5 % of them at severity 1, 40 % at severity 5.

    5, 10, 20, 30 and 40 % of words; a text that would lose all of them keeps them.
    """

    rates: ClassVar[tuple[float, ...]] = (0.05, 0.1, 0.2, 0.3, 0.4)

    def spoil(self, text: str, lots: FloatArray) -> str:
        """The text without some words."""
        starts = zip(word_starts(text), text.split(), strict=True)
        return " ".join(word for start, word in starts if lots[start, 0] >= self.rate)
