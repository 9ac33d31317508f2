"""Texts in memory, handed out as rows of bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shiftproof.domains.domain import Domain
from shiftproof.domains.inputs import original_of
from shiftproof.errors import DataError
from shiftproof.execution import check_count
from shiftproof.perturbations.text import decode, fault_of, plain, rows_of
from shiftproof.types import IntArray

__all__ = ["ROOM", "TextInputs", "text_domain", "texts_of"]


ROOM = 64
"""Bytes by which rows are wider than the longest text, so that an attack can put words in."""


class TextInputs:
    """Texts, each kept as UTF-8: words with one space between two. All rows are `width` bytes wide."""

    in_memory = True
    kind = "text"

    def __init__(self, texts: Sequence[str], width: int | None = None) -> None:
        self._contents = [text.encode() for text in texts]
        longest = max(map(len, self._contents), default=0)
        self._width = longest + ROOM if width is None else int(width)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._width,)

    @cached_property
    def fingerprint(self) -> str:
        # the width has a say: coins are drawn for a row, and edited or corrupted texts must fit into it
        digest = hashlib.blake2b(b"text" + self._width.to_bytes(8, "little"), digest_size=16)
        for content in self._contents:
            digest.update(len(content).to_bytes(8, "little") + content)
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self._contents)

    def take(self, indices: IntArray) -> Tensor:
        return torch.from_numpy(rows_of([self._contents[i] for i in indices.tolist()], self._width)).float()

    def texts(self, indices: IntArray) -> list[str]:
        """The texts at `indices`, without the way through rows of bytes."""
        return [self._contents[i].decode() for i in indices.tolist()]

    def prepare(self, indices: IntArray | None = None) -> None:
        """Nothing: texts are read when they are loaded."""

    def narrow(self, indices: IntArray) -> TextInputs:
        narrowed = type(self)([], self._width)
        narrowed._contents = [self._contents[i] for i in indices.tolist()]
        return narrowed


def text_domain(
    name: str,
    texts: Sequence[str] | Sequence[tuple[str, str]],
    labels: Sequence[int] | IntArray,
    classes: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
    groups: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
    width: int | None = None,
) -> Domain:
    """A domain of texts, or of pairs of texts. Rows are `width` bytes wide, or a little wider than the longest text.

    >>> text_domain("reviews", ["so good", "not good"], [1, 0], ["negative", "positive"])
    Domain('reviews', 2 samples of text, 2 classes)
    """
    inputs = TextInputs(_checked_texts(name, texts, width), width)
    return Domain.from_inputs(name, inputs, labels, classes, ids=ids, groups=groups, splits=splits)


def _checked_texts(name: str, texts: Any, width: int | None) -> list[str]:
    """Texts in the way in which they are kept; DataError for what is none, or is too long for the rows."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Iterable):
        raise DataError(f"texts of {name!r} are {texts!r:.60}; they should be a list of texts, such as ['so good']")
    if width is not None:
        check_count("the width", width)
    kept = []
    for row, one in enumerate(texts):
        pair = isinstance(one, tuple | list) and len(one) == 2
        for part in one if pair else [one]:
            if fault := fault_of(part):
                expected = "each should be a text (str), or a pair of two texts"
                raise DataError(f"texts[{row}] of {name!r} {fault}; {expected}")
        kept.append(plain(*one) if pair else plain(one))
        size = len(kept[-1].encode())
        if width is not None and size > width:
            raise DataError(f"texts[{row}] of {name!r} has {size} bytes, but width is {width}; leave width out")
    return kept


def texts_of(domain: Domain, indices: Sequence[int] | IntArray | None = None) -> list[str]:
    """The texts of a domain, or those at `indices`; the parts of a pair are separated by `text.BETWEEN`."""
    wanted = np.arange(len(domain)) if indices is None else np.asarray(indices, np.int64)
    inputs, chosen = original_of(domain.inputs, wanted)
    return inputs.texts(chosen) if isinstance(inputs, TextInputs) else decode(inputs.take(chosen))
