"""What reading machines take letters for."""

from dataclasses import dataclass
from typing import ClassVar

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
from shiftproof.perturbations.corruptions.text_corruption import TextCorruption
from shiftproof.types import FloatArray

__all__ = ["CONFUSIONS", "OCR"]

_ALIKE = (
    *(("l", "1"), ("l", "I"), ("I", "1"), ("O", "0"), ("o", "0"), ("S", "5"), ("B", "8"), ("Z", "2"), ("g", "9")),
    *(("G", "6"), ("e", "c"), ("h", "b"), ("n", "u"), ("i", "j"), ("t", "f"), ("rn", "m"), ("cl", "d"), ("vv", "w")),
    *(("li", "h"), (".", ",")),
)
CONFUSIONS = {
    seen: tuple(other for pair in _ALIKE if seen in pair for other in pair if other != seen)
    for seen in dict.fromkeys(one for pair in _ALIKE for one in pair)
}
"""Letters, or two of them, and what they are taken for: all pairs go both ways."""


@CORRUPTIONS.register("ocr", order="23", group="text", severities="2, 4, 8, 14, 20 % of letters that look like others")
@dataclass(frozen=True)
class OCR(TextCorruption):
    """Letters misread as in a scan (l/1, O/0, rn/m): 2 % of those that look like others at severity 1, 20 % at 5.

    2, 4, 8, 14 and 20 % of letters that look like another (also cl/d and others); of several that a letter looks like,
    each is as likely.
    """

    rates: ClassVar[tuple[float, ...]] = (0.02, 0.04, 0.08, 0.14, 0.2)

    def spoil(self, text: str, lots: FloatArray) -> str:
        """The text as a machine reads it."""
        read, place = [], 0
        while place < len(text):
            pair = text[place : place + 2]
            seen = pair if pair in CONFUSIONS else text[place]
            hit = lots[place, 0] < self.rate and seen in CONFUSIONS
            others = CONFUSIONS[seen] if hit else (text[place],)
            read.append(others[int(lots[place, 1] * len(others))])
            place += len(seen) if hit else 1
        return "".join(read)
