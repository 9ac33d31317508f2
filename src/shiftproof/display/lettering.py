"""Text in pictures of pixels: how wide it is, where its lines break, and how it is drawn."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from math import ceil

from PIL import ImageDraw, ImageFont

__all__ = ["SMALL", "height_of", "plain", "text_font", "width_of", "words_of", "wrap", "write"]

SMALL = 13
"""Pixels of a letter, about, unless told."""
_LEADING = 1.25
_WORD = re.compile(r"[^\s_-]+[_-]*|[_-]+")


def plain(text: str) -> str:
    """Text in the letters that Pillow's own font has: accents are dropped, what it lacks becomes a question mark.

    >>> plain("Krankenhaus Köln, 病院")
    'Krankenhaus Koln, ??'
    """
    parts = unicodedata.normalize("NFKD", text)
    return "".join(c if " " <= c <= "~" else "?" for c in parts if not unicodedata.combining(c))


def text_font(size: int = SMALL) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font: it looks the same on every machine."""
    return ImageFont.load_default(size)


def width_of(text: str, size: int = SMALL) -> float:
    """How wide a line is, in pixels."""
    return text_font(size).getlength(text)


def height_of(lines: int, size: int = SMALL) -> int:
    """How high lines below each other are, in pixels."""
    return ceil(lines * size * _LEADING)


def words_of(text: str) -> list[str]:
    """Pieces between which a line may break: behind spaces, hyphens and underscores.

    >>> words_of("jpeg-compression of a dog")
    ['jpeg-', 'compression', 'of', 'a', 'dog']
    """
    return _WORD.findall(plain(text))


def wrap(text: str, room: float) -> list[str]:
    """Lines that are at most `room` wide; a word that is wider is broken anywhere."""
    written, lines = plain(text), list[str]()
    for found in _WORD.finditer(written):
        word = found.group()
        space = " " if found.start() and written[found.start() - 1].isspace() else ""
        if lines and width_of(lines[-1] + space + word) <= room:
            lines[-1] += space + word
            continue
        lines.append("")
        for letter in word:
            if lines[-1] and width_of(lines[-1] + letter) > room:
                lines.append("")
            lines[-1] += letter
    return lines


def write(
    pen: ImageDraw.ImageDraw, place: tuple[float, float], lines: Sequence[str], ink: tuple[int, int, int], anchor: str
) -> None:
    """Draw lines below each other, the first from `place` on; `anchor` is Pillow's."""
    for number, line in enumerate(lines):
        pen.text((place[0], place[1] + number * SMALL * _LEADING), line, ink, text_font(), anchor=anchor)
