"""Texts in memory, handed out as rows of bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from shiftproof.domains.domain import Domain
from shiftproof.domains.inputs import Inputs, SubsetInputs
from shiftproof.perturbations.text import decode, plain, rows_of
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
        self._width = longest + ROOM if width is None else width

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._width,)

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.blake2b(b"text", digest_size=16)
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

    def prepare(self) -> None:
        """Nothing: texts are read when they are loaded."""


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
    kept = [plain(one) if isinstance(one, str) else plain(*one) for one in texts]
    return Domain.from_inputs(name, TextInputs(kept, width), labels, classes, ids=ids, groups=groups, splits=splits)


def texts_of(domain: Domain, indices: Sequence[int] | IntArray | None = None) -> list[str]:
    """The texts of a domain, or those at `indices`; the parts of a pair are separated by `text.BETWEEN`."""
    chosen = np.arange(len(domain)) if indices is None else np.asarray(indices, np.int64)
    inputs: Inputs = domain.inputs
    while isinstance(inputs, SubsetInputs):
        inputs, chosen = inputs.origin(chosen)
    return inputs.texts(chosen) if isinstance(inputs, TextInputs) else decode(inputs.take(chosen))
