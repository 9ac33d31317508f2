"""Text as a tensor: a row of UTF-8 bytes, so that texts go wherever images go.

A text is kept in one way of writing: words, as white space separates them, with one space between two. Its bytes are
numbers from 1 to 255 in a row that is filled up with zeros; float32 and bfloat16 hold them exactly. The two parts of a
pair (premise and hypothesis, question and answer) share a row with a byte between them that no text contains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = [
    "BETWEEN",
    "SPACE",
    "decode",
    "encode",
    "fault_of",
    "joined",
    "parts_of",
    "plain",
    "rows_of",
    "words_of",
]

SPACE = 0x20
BETWEEN = 0x1E
"""The byte between the two parts of a pair: ASCII's record separator."""
_NEVER = dict.fromkeys([0, BETWEEN], " ")


def plain(text: str, second: str | None = None) -> str:
    """A text, or a pair of texts, in the one way in which it is kept: words with one space between two.

    >>> plain("  two\\n words ")
    'two words'
    """
    words = " ".join(text.translate(_NEVER).split())
    return words if second is None else f"{words}{chr(BETWEEN)}{plain(second)}"


def fault_of(value: object) -> str | None:
    """Why a value is no text that can be kept, as the end of a sentence; None if it is one.

    >>> fault_of("fine"), fault_of(b"fine")
    (None, "is b'fine', which is bytes, not text")
    """
    if not isinstance(value, str):
        return f"is {value!r:.60}, which is {type(value).__name__}, not text"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return f"holds half a character (\\u{ord(value[error.start]):04x})"
    return None


def parts_of(text: str) -> list[str]:
    """The text, or the two parts of a pair."""
    return text.split(chr(BETWEEN))


def words_of(text: str) -> list[str]:
    """The words of a text; of a pair, those of both parts with the byte between them.

    >>> words_of(plain("two words", "one"))
    ['two', 'words', '\\x1e', 'one']
    """
    # not at all white space: Python counts the byte between two parts as such
    return [word for word in text.replace(chr(BETWEEN), f" {chr(BETWEEN)} ").split(" ") if word]


def joined(words: Sequence[str]) -> str:
    """The text of some words, back from `words_of`."""
    return plain(*" ".join(words).split(chr(BETWEEN)))


def rows_of(contents: Sequence[bytes], width: int | None = None) -> NDArray[np.uint8]:
    """Bytes of N texts as rows (N x width, by default as wide as the longest), filled up with zeros."""
    lengths = np.array([len(one) for one in contents], np.int64)
    rows = np.zeros((len(contents), int(lengths.max(initial=1)) if width is None else width), np.uint8)
    filled = np.arange(rows.shape[1]) < lengths[:, None]
    rows[filled] = np.frombuffer(b"".join(contents), np.uint8)
    return rows


def encode(texts: Sequence[str], width: int | None = None) -> Tensor:
    """Texts as rows of bytes, N x width, float32.

    >>> encode(["ab", "c"])
    tensor([[97., 98.],
            [99.,  0.]])
    """
    return torch.from_numpy(rows_of([text.encode() for text in texts], width)).float()


def decode(rows: Tensor) -> list[str]:
    """The texts of N rows, whatever numbers stand in them: a model of text answers to every row.

    Numbers are rounded to bytes and zeros left out, so that the width of a row tells nothing; bytes that are no UTF-8
    become the replacement character.

    >>> decode(encode(["naïve", ""], 12))
    ['naïve', '']
    """
    used = rows.detach().any(0).nonzero()
    rows = rows.detach()[:, : int(used.max()) + 1 if len(used) else 0]
    numbers = rows.float().nan_to_num(0.0).round().clamp(0, 255).to("cpu", torch.uint8).numpy()
    return [row.tobytes().replace(b"\0", b"").decode("utf-8", "replace") for row in numbers]
