"""Marks that are left out."""

import unicodedata
from dataclasses import dataclass
from typing import ClassVar

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
from shiftproof.perturbations.corruptions.text_corruption import TextCorruption
from shiftproof.types import FloatArray

__all__ = ["DroppedPunctuation"]


@CORRUPTIONS.register("dropped-punctuation", order="22", group="text", severities="20, 40, 60, 80, 100 % of marks")
@dataclass(frozen=True)
class DroppedPunctuation(TextCorruption):
    """Punctuation marks left out: 20 % of them at severity 1, all at severity 5.

    20, 40, 60, 80 and 100 % of what Unicode calls punctuation, hyphens and apostrophes included; a text of marks alone
    stays as it is.
    """

    rates: ClassVar[tuple[float, ...]] = (0.2, 0.4, 0.6, 0.8, 1.0)

    def spoil(self, text: str, lots: FloatArray) -> str:
        """The text without marks."""
        dropped = lots[:, 0] < self.rate
        return "".join(one for one, drop in zip(text, dropped, strict=True) if not (drop and _is_mark(one)))


def _is_mark(letter: str) -> bool:
    return unicodedata.category(letter).startswith("P")
