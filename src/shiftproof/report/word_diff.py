"""Which words of a text were deleted and inserted."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from shiftproof.perturbations.text import BETWEEN

__all__ = ["Piece", "marked", "shortened", "word_diff"]

_SHOWN = " ‖ "
"""What stands between the two parts of a pair where it is shown."""
_MARKS = {"same": "{}", "deleted": "[-{}-]", "inserted": "{{+{}+}}"}


@dataclass(frozen=True)
class Piece:
    """Words in a row that stayed, were deleted, or were inserted; a replaced word is deleted, then another inserted."""

    kind: Literal["same", "deleted", "inserted"]
    text: str


def word_diff(before: str, after: str) -> list[Piece]:
    """The words of both texts in order, each as what became of it.

    >>> [(one.kind, one.text) for one in word_diff("a good film", "a bad film")]
    [('same', 'a'), ('deleted', 'good'), ('inserted', 'bad'), ('same', 'film')]
    """
    old, new = _words(before), _words(after)
    found: list[Piece] = []
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            found.append(Piece("same", " ".join(old[i:j])))
            continue
        if i < j:
            found.append(Piece("deleted", " ".join(old[i:j])))
        if k < m:
            found.append(Piece("inserted", " ".join(new[k:m])))
    return found


def shortened(pieces: list[Piece], most: int = 60) -> list[Piece]:
    """The pieces with long runs of words that stayed cut in their middle, to `most` words.

    >>> shortened(word_diff("a b c d e f", "a b c d e f g"), most=2)
    [Piece(kind='same', text='a … f'), Piece(kind='inserted', text='g')]
    """
    return [one if one.kind != "same" else Piece("same", _cut(one.text.split(), most)) for one in pieces]


def _cut(words: list[str], most: int) -> str:
    half = most // 2
    return " ".join(words if len(words) <= most else [*words[:half], "…", *words[len(words) - half :]])


def marked(pieces: list[Piece]) -> str:
    """The words with marks around what changed, for where there are no colours.

    >>> marked(word_diff("a good film", "a bad film"))
    'a [-good-] {+bad+} film'
    """
    return " ".join(_MARKS[one.kind].format(one.text) for one in pieces)


def _words(text: str) -> list[str]:
    """The words; what no page or terminal should be sent, such as an escape, is shown as a question mark in a box."""
    shown = (one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text.replace(chr(BETWEEN), _SHOWN))
    return "".join(shown).split()
