"""The gallery as the page's template reads it: samples with pictures, answers, votes and distances, and filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from shiftproof.report.word_diff import Piece

__all__ = [
    "ON_PAPER",
    "Answer",
    "Bar",
    "Chip",
    "DomainView",
    "Figure",
    "Filter",
    "Gallery",
    "ModelView",
    "SampleView",
    "Scale",
]

ON_PAPER = 12
"""Samples that are printed."""
Level = Literal["pass", "warn", "fail", "soft"]


@dataclass(frozen=True)
class Answer:
    """What a model answers, by the name of the class, and whether that is right; None where nobody knows."""

    text: str
    right: bool | None


@dataclass(frozen=True)
class Figure:
    """A picture (data URL) or a text in pieces, what it is, and each model's answer to it in order; None: not asked.

    `verb` is how the answer is known: the model says it, or it is guaranteed.
    """

    title: str
    note: str
    picture: str = ""
    pieces: Sequence[Piece] | None = None
    answers: Sequence[Answer | None] = ()
    verb: str = "says"


@dataclass(frozen=True)
class Chip:
    """A word or two on a sample's tile, in a colour."""

    level: Level
    text: str


@dataclass(frozen=True)
class Bar:
    """Votes for a class; `role` says label, chosen, runner-up or others."""

    name: str
    role: str
    count: int
    percent: float
    right: bool


@dataclass(frozen=True)
class Scale:
    """A certified radius and how far an attack went on one line; places are in percent of its length, None: none."""

    words: str
    radius: float | None = None
    distance: float | None = None


@dataclass(frozen=True)
class ModelView:
    """What one model makes of a sample."""

    model: str
    tags: Sequence[str]
    chips: Sequence[Chip]
    figures: Sequence[Figure]
    answers: Sequence[tuple[str, Answer]]
    votes: Sequence[Bar]
    vote_words: str
    scales: Sequence[Scale]
    words: Sequence[str]


@dataclass(frozen=True)
class SampleView:
    """A sample: its name, its label, what is the same for all models, and each model's view; None: not measured.

    On paper are those that are `printed`.
    """

    name: str
    label: str
    figures: Sequence[Figure]
    models: Sequence[ModelView | None]
    printed: bool = True


@dataclass(frozen=True)
class DomainView:
    """The samples of a domain."""

    name: str
    role: str
    samples: Sequence[SampleView]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Filter:
    """A button that leaves some samples: those with its tag. `about` says which these are."""

    tag: str
    name: str
    about: str


@dataclass(frozen=True)
class Gallery:
    """Samples of all domains, with buttons that leave some of them."""

    kind: ClassVar[str] = "gallery"

    models: Sequence[str]
    domains: Sequence[DomainView]
    filters: Sequence[Filter]

    @property
    def samples(self) -> list[SampleView]:
        """All samples, domain after domain."""
        return [sample for domain in self.domains for sample in domain.samples]

    @property
    def labels(self) -> list[str]:
        """The labels that occur, in order of their first sample."""
        return sorted({one.label for one in self.samples})

    def count(self, tag: str, model: int = 0) -> int:
        """How many samples have a tag by a model."""
        views = [one.models[model] for one in self.samples]
        return sum(view is not None and tag in view.tags for view in views)
