"""Tokenisers of the `tokenizers` library: WordPiece, byte pairs and the like, as a tokenizer.json describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from shiftproof.errors import ModelError
from shiftproof.models.text.library import first_line, import_library
from shiftproof.models.text.tokens import Tokeniser, Tokens, padded
from shiftproof.perturbations.text import parts_of
from shiftproof.types import Positive

__all__ = ["FastTokeniser"]


@dataclass(frozen=True)
class FastTokeniser(Tokeniser):
    """What a tokenizer.json says, with texts cut at `length` tokens, special ones among them.

    Pairs and special tokens are arranged as that file says: BERT reads [CLS] one [SEP] other [SEP]. Of a pair that is
    too long, the longer part is cut first.

    Args:
        content: The text of the tokenizer.json.
    """

    content: str = field(repr=False)
    length: Positive

    @property
    def largest(self) -> int:
        """The largest number of a token."""
        return max(_compiled(self.content, None).get_vocab().values(), default=0)

    @property
    def words(self) -> Mapping[str, int]:
        """Tokens that are a whole word of letters, and their numbers."""
        return _words(self.content)

    def tokens(self, texts: Sequence[str]) -> Tokens:
        """Tokens of texts or pairs of texts."""
        inputs = [_input(text) for text in texts]
        encoded = _compiled(self.content, None).encode_batch_fast(inputs)
        whole = torch.tensor([len(one.ids) for one in encoded])
        if (long := torch.nonzero(whole > self.length)[:, 0].tolist()) != []:
            shorter = _compiled(self.content, self.length).encode_batch_fast([inputs[row] for row in long])
            for row, one in zip(long, shorter, strict=True):
                encoded[row] = one
        lengths = torch.tensor([len(one.ids) for one in encoded])
        ids = padded([one.ids for one in encoded])
        # a text without any token has one that says nothing: no model can read nothing at all
        real = torch.arange(ids.shape[1]) < lengths.clamp(min=1)[:, None]
        special = padded([one.special_tokens_mask for one in encoded]).bool()
        words = (torch.arange(ids.shape[1]) < lengths[:, None]) & ~special
        return Tokens(ids, real, words, whole - lengths, padded([one.type_ids for one in encoded]))


def _input(text: str) -> str | tuple[str, str]:
    """A text, or the two parts of a pair; a row of bytes may hold more parts, which then belong to the second."""
    first, *rest = parts_of(text)
    return (first, " ".join(rest)) if rest else first


@lru_cache(8)
def _words(content: str) -> Mapping[str, int]:
    vocabulary: dict[str, int] = _compiled(content, None).get_vocab()
    # byte pairs and sentence pieces mark where a word begins, WordPiece where it goes on
    marked = {token[1:]: number for token, number in vocabulary.items() if token[:1] in ("\u0120", "\u2581")}
    return {token: number for token, number in (marked or vocabulary).items() if token.isalpha()}


@lru_cache(8)
def _compiled(content: str, length: int | None) -> Any:
    """The library's own object, made once for each content: it stays out of the model, which is copied and sent."""
    try:
        tokenizer = import_library("tokenizers").Tokenizer.from_str(content)
    # what the library raises has no type of its own
    except Exception as error:
        if not isinstance(error, ValueError | TypeError) and type(error) is not Exception:
            raise
        raise ModelError(f"the tokeniser can't be read: {first_line(error)}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if length is not None:
        try:
            tokenizer.enable_truncation(length)
        except (ValueError, TypeError) as error:
            raise ModelError(f"the tokeniser can't cut texts at {length} tokens: {first_line(error)}") from error
    return tokenizer
