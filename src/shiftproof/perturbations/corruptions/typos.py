"""What fingers do to letters."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shiftproof.perturbations.corruptions.corruption import CORRUPTIONS
from shiftproof.perturbations.corruptions.text_corruption import TextCorruption
from shiftproof.types import FloatArray

__all__ = ["NEIGHBOURS", "Typos"]

_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _neighbours() -> dict[str, str]:
    """For each letter, those on the keys around it; each row is half a key to the right of the one above."""
    places = {key: (i, row) for row, keys in enumerate(_KEYS) for i, key in enumerate(keys)}
    near = {(-1, 0), (1, 0), (0, -1), (1, -1), (-1, 1), (0, 1)}
    return {
        key: "".join(other for other, (i, j) in places.items() if (i - x, j - y) in near)
        for key, (x, y) in places.items()
    }


NEIGHBOURS = _neighbours()
"""Letters of an English keyboard and those beside them."""


@CORRUPTIONS.register(
    "typos", order="20", group="text", paper="Belinkov & Bisk 2018", severities="1, 2, 4, 8, 12 % of letters"
)
@dataclass(frozen=True)
class Typos(TextCorruption):
    """Letters mistyped (the key beside it, swapped, dropped or doubled): 1 % at severity 1, 12 % at severity 5.

    1, 2, 4, 8 and 12 % of letters become that on a neighbouring key, are exchanged with the next one, dropped, or
    doubled, each as often. A letter without neighbours on an English keyboard, or without a letter behind it to
    be exchanged with, is doubled. Belinkov & Bisk, "Synthetic and natural noise both break neural machine translation"
    (2018, arXiv:1711.02173).
    """

    rates: ClassVar[tuple[float, ...]] = (0.01, 0.02, 0.04, 0.08, 0.12)

    def spoil(self, text: str, lots: FloatArray) -> str:
        """The text with typing errors."""
        letters = list(text)
        for place in np.flatnonzero(lots[:, 0] < self.rate).tolist():
            if not text[place].isalpha():
                continue
            # what is left of the number after the kind was chosen by it is uniform again
            kind, rest = divmod(4 * lots[place, 1], 1)
            near = NEIGHBOURS.get(letters[place].lower(), "")
            if kind == 0 and near:
                key = near[int(rest * len(near))]
                letters[place] = key.upper() if letters[place].isupper() else key
            elif kind == 1 and text[place + 1 : place + 2].isalpha():
                letters[place : place + 2] = letters[place + 1], letters[place]
            elif kind == 2:
                letters[place] = ""
            else:
                letters[place] *= 2
        return "".join(letters)
