"""Letters in another case."""

from dataclasses import dataclass
from typing import ClassVar

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
from shiftproof.perturbations.corruptions.text_corruption import TextCorruption, word_starts
from shiftproof.types import FloatArray

__all__ = ["Case"]


@CORRUPTIONS.register("case", order="21", group="text", severities="10, 25, 50, 75, 100 % of words")
@dataclass(frozen=True)
class Case(TextCorruption):
    """Words in lower, upper or mixed case: 10 % of them at severity 1, all at severity 5.

    10, 25, 50, 75, 100 % of words are put in lower case, in upper case, or with each letter in either, each as often. A
    model that reads all letters as small ones does not notice.
    """

    rates: ClassVar[tuple[float, ...]] = (0.1, 0.25, 0.5, 0.75, 1.0)

    def spoil(self, text: str, lots: FloatArray) -> str:
        """The text with words in another case."""
        words = []
        for start, word in zip(word_starts(text), text.split(), strict=True):
            kind, rest = divmod(3 * lots[start : start + len(word), 1], 1)
            if lots[start, 0] >= self.rate:
                words.append(word)
            elif kind[0] == 0:
                words.append(word.lower())
            elif kind[0] == 1:
                words.append(word.upper())
            else:
                either = zip(word, rest < 0.5, strict=True)
                words.append("".join(letter.upper() if large else letter.lower() for letter, large in either))
        return " ".join(words)
