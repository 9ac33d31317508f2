"""What an adversary may do to a text behind its first layer: move the embeddings of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, get_args

import torch
from pydantic import PlainValidator
from torch import Tensor

from shiftproof.errors import UnknownName, UsageError
from shiftproof.perturbations.threat import Ball, Norm, Threat, parse_eps, project, random_start, size

__all__ = ["PARTS", "EmbeddingOption", "EmbeddingThreat", "as_embedding_threat"]

Part = Literal["text", "token"]
PARTS: tuple[Part, ...] = get_args(Part)
"""Over what a norm may be taken."""
_PREFIX = "embedding-"


@dataclass(frozen=True)
class EmbeddingThreat(Ball):
    """Every change of the embeddings of a text's own tokens whose norm is at most `eps`, over the text or each token.

    Padding and special tokens never move. It covers no exchange of words: two words are usually much farther apart.

    >>> EmbeddingThreat.parse("embedding-l2:1.0")
    EmbeddingThreat(order='l2', eps=1.0, per='text')
    >>> EmbeddingThreat.parse("embedding-linf,per=token:0.001").spec
    'embedding-linf,per=token:0.001'
    """

    order: Norm
    eps: float
    per: Part = "text"

    usual_attack: ClassVar[str] = "embedding-pgd"

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", Threat(self.order, self.eps).eps)
        if self.per not in PARTS:
            raise UnknownName("part of a text", str(self.per), PARTS)

    @classmethod
    def parse(cls, text: str) -> EmbeddingThreat:
        """From text such as 'embedding-l2:1.0' or 'embedding-l2,per=token:0.1'."""
        kind, colon, eps = text.partition(":")
        order, comma, option = kind.strip().removeprefix(_PREFIX).partition(",")
        per = option.removeprefix("per=")
        if not colon or not kind.strip().startswith(_PREFIX) or (comma and not option.startswith("per=")):
            raise UsageError(f"the threat is {text!r}; write a norm and a size, such as embedding-l2:1.0")
        if order not in get_args(Norm):
            raise UnknownName("norm", order, get_args(Norm))
        return cls(order, parse_eps(eps), per or "text")  # type: ignore[arg-type]

    @property
    def kind(self) -> str:
        """The norm, and over what it is taken unless that is the whole text."""
        return f"{_PREFIX}{self.order}" + (f",per={self.per}" if self.per != "text" else "")

    @property
    def norm(self) -> str:
        """In which `eps` is measured: no norm of an input, and never compared with one."""
        return self.kind

    @property
    def units(self) -> str:
        """Of `eps`."""
        return f"units of the model's own embedding, over {'the text' if self.per == 'text' else 'each token'}"

    @property
    def spec(self) -> str:
        """The text that `parse` reads."""
        return f"{self.kind}:{self.eps!r}"

    def __str__(self) -> str:
        return f"{self.kind} {self.eps:g}"

    def at(self, eps: float) -> EmbeddingThreat:
        """The same with another size."""
        return replace(self, eps=eps)

    def units_of(self, change: Tensor) -> Tensor:
        """Changes of embeddings (N x T x D) as rows, each of which has a norm of its own: texts, or their tokens."""
        return change.flatten(1) if self.per == "text" else change.flatten(0, 1)

    def project(self, change: Tensor, eps: Tensor) -> Tensor:
        """The nearest changes (N x T x D) inside balls of radii `eps` (N)."""
        units = self.units_of(change)
        radii = eps.repeat_interleave(len(units) // len(change))
        return project(units, self.order, radii).reshape(change.shape)

    def size(self, change: Tensor) -> Tensor:
        """The norms (N) of changes (N x T x D); over each token, the largest of a text.

        >>> change = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]])
        >>> [EmbeddingThreat("l1", 1.0, per).size(change).item() for per in ("text", "token")]
        [8.0, 7.0]
        """
        sizes = size(self.units_of(change), self.order)
        return sizes.reshape(len(change), -1).amax(1)

    def random_start(self, movable: Tensor, width: int, eps: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """Changes (N x T x width) that are uniform in balls of radii `eps` (N) and 0 but for `movable` tokens (N x T).

        Every text draws from its own generator, and as much as it has tokens, so that no other text matters.
        """
        changes = torch.zeros(*movable.shape, width)  # on the CPU: where generators draw
        for row, (words, generator) in enumerate(zip(movable.cpu(), generators, strict=True)):
            if count := int(words.sum()):
                shape = (1, count * width) if self.per == "text" else (count, width)
                changes[row, words] = random_start(shape, self.order, 1.0, generator).reshape(count, width)
        return changes.to(eps) * eps[:, None, None]


def as_embedding_threat(value: object) -> EmbeddingThreat:
    """The threat that is meant by a text such as 'embedding-l2:1.0', or one."""
    if isinstance(value, EmbeddingThreat):
        return value
    if isinstance(value, str):
        return EmbeddingThreat.parse(value)
    raise UsageError(f"the threat is {value!r}; this attack moves embeddings: write it as 'embedding-l2:1.0'")


EmbeddingOption = Annotated[EmbeddingThreat, PlainValidator(as_embedding_threat)]
"""A field of a method that takes such a threat in any form that `as_embedding_threat` reads."""
