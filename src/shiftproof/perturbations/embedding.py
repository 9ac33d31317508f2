"""What an adversary may do to a text behind its first layer: move the embeddings of its tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from pydantic import PlainValidator

from shiftproof.errors import UnknownName, UsageError
from shiftproof.perturbations.threat import Ball, Norm, Threat, parse_eps

__all__ = ["EmbeddingOption", "EmbeddingThreat", "as_embedding_threat"]

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
    per: Literal["text", "token"] = "text"

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", Threat(self.order, self.eps).eps)
        if self.per not in ("text", "token"):
            raise UnknownName("part of a text", str(self.per), ["text", "token"])

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


def as_embedding_threat(value: object) -> EmbeddingThreat:
    """The threat that is meant by a text such as 'embedding-l2:1.0', or one."""
    if isinstance(value, EmbeddingThreat):
        return value
    if isinstance(value, str):
        return EmbeddingThreat.parse(value)
    raise UsageError(f"the threat is {value!r}; this attack moves embeddings: write it as 'embedding-l2:1.0'")


EmbeddingOption = Annotated[EmbeddingThreat, PlainValidator(as_embedding_threat)]
"""A field of a method that takes such a threat in any form that `as_embedding_threat` reads."""
