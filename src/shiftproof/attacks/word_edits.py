"""The worst edits of words that a greedy search finds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from shiftproof.attacks.contract import ATTACKS, Attack, batches
from shiftproof.attacks.losses import margin
from shiftproof.attacks.result import Found
from shiftproof.attacks.victim import Victim
from shiftproof.models.text import text_encoder_of
from shiftproof.perturbations.edits import EditsOption
from shiftproof.perturbations.text import BETWEEN, decode, encode, joined, words_of
from shiftproof.types import Natural, Positive

__all__ = ["WordEdits"]

COMMON = (
    *("not", "never", "no", "very", "hardly", "the", "a", "it", "is", "and", "but", "so", "too", "all", "good", "bad"),
    *("great", "terrible", "best", "worst", "love", "hate", "wonderful", "awful", "boring", "excellent", "poor"),
    *("perfect", "waste", "recommend", "disappointing", "ok", "fine", "yes", "people", "time", "?", "!"),
)
"""Words that are put in where the model has no vocabulary of its own to choose from, and besides that."""
_EVALUATED = 512
"""Texts whose scores are computed together."""


@ATTACKS.register(
    "word-edits",
    paper="Jin et al. 2020; Li et al. 2016",
    cost="(positions + tried x (2 x words + 2)) forward a sample and edit",
    needs="text, and a number of edits for a threat",
)
@dataclass(frozen=True)
class WordEdits(Attack):
    """Edits the words that matter most, one after the other, up to the number that is allowed: `WordEdits("edits:3")`.

    Of each text, in every round: how much the margin falls when a word is left out, for `positions` words at most;
    then, at the `tried` most important places, the word is deleted, misspelled, or replaced by each of `words` others,
    and these are inserted before it. What does most harm is kept. Others are nearest neighbours in the model's own
    embedding where it has a vocabulary, and common words. Importance: Li et al., "Understanding neural networks through
    representation erasure" (2016, arXiv:1612.08220); greedy edits in that order: Jin et al., "Is BERT really robust?"
    (2020, arXiv:1907.11932).
    """

    threat: EditsOption
    positions: Positive = 64
    tried: Positive = 4
    words: Natural = 8
    early_exit: bool = True

    clip: ClassVar[bool] = False

    @property
    def passes(self) -> int:
        """Scores for one sample, at most."""
        return int(self.threat.eps) * (self.positions + self.tried * (2 + 2 * self.words)) + 1

    def run(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Tensor:
        """The texts with the edits that were found."""
        searched = self._searched(victim, inputs, labels, eps, generators)
        return encode([one.text for one in searched], inputs.shape[1]).to(inputs)

    def overturn(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> Found:
        """The edited texts, what the victim answers to them, and how many edits there are."""
        parts = []
        for rows in batches(inputs, victim):
            searched = self._searched(
                victim, inputs[rows], labels[rows], eps[rows], [generators[row] for row in rows.tolist()]
            )
            edited = encode([one.text for one in searched], inputs.shape[1]).to(inputs)
            distance = torch.tensor([one.edits for one in searched], dtype=torch.float64, device=inputs.device)
            parts.append(Found(edited, victim.answers(edited), distance, inputs.new_zeros(len(rows), 0)))
        return Found.joined(parts)

    def _searched(
        self, victim: Victim, inputs: Tensor, labels: Tensor, eps: Tensor, generators: Sequence[torch.Generator]
    ) -> list[_Search]:
        """Round by round; a text that is misclassified is left alone where scores are answers."""
        searches = [
            _Search(text, width=inputs.shape[1], label=label, most=int(most), generator=generator)
            for text, label, most, generator in zip(
                decode(inputs), labels.tolist(), eps.tolist(), generators, strict=True
            )
        ]
        with torch.no_grad():
            while active := [one for one in searches if one.edits < one.most and not one.done]:
                left_out = [one.without_each(self.positions) for one in active]
                harm = _losses(victim, active, [list(one.values()) for one in left_out])
                tried = [
                    one.edited_at(self._others(victim, one, _worst(list(texts), losses, self.tried)))
                    for one, texts, losses in zip(active, left_out, harm, strict=True)
                ]
                for one, texts, losses in zip(active, tried, _losses(victim, active, tried), strict=True):
                    one.take(texts, losses, stops=self.early_exit and victim.exact)
        return searches

    def _others(self, victim: Victim, search: _Search, places: Sequence[int]) -> dict[int, list[str]]:
        """For each place, words to put there."""
        encoder, words, found = text_encoder_of(victim.model), words_of(search.text), {}
        for place in places:
            near = encoder.neighbours(words[place], self.words // 2) if encoder is not None and words else []
            order = torch.randperm(len(COMMON), generator=search.generator).tolist()
            found[place] = [*near, *(COMMON[i] for i in order[: self.words - len(near)])]
        return found


def _worst(places: Sequence[int], losses: Sequence[float], count: int) -> list[int]:
    """The places whose words matter most."""
    return [place for _, place in sorted(zip(losses, places, strict=True), reverse=True)[:count]]


@dataclass
class _Search:
    """A text and its edits so far. The byte between the two parts of a pair stands among its words, and stays."""

    text: str
    width: int
    label: int
    most: int
    generator: torch.Generator
    edits: int = 0
    loss: float = -math.inf
    done: bool = False

    def without_each(self, most: int) -> dict[int, str]:
        """The text without one word, by its place; of more than `most` words, some at random."""
        words = words_of(self.text)
        places = [place for place, word in enumerate(words) if word != chr(BETWEEN)]
        if len(places) > most:
            chosen = torch.randperm(len(places), generator=self.generator)[:most].tolist()
            places = [places[i] for i in sorted(chosen)]
        return {place: _joined(words, place, []) for place in places} or {0: self.text}

    def edited_at(self, others: Mapping[int, Sequence[str]]) -> list[str]:
        """Every text after one edit at one of some places, with the words that are tried there; what fits into a row.

        The text as it is comes first.
        """
        words, found = words_of(self.text), [self.text]
        for place, new in others.items():
            here = words[place : place + 1]
            put = [[], [misspelled(here[0])], *([word] for word in new)] if here else []
            found += [_joined(words, place, one) for one in [*put, *([word, *here] for word in new)]]
        return [text for text in dict.fromkeys(found) if len(text.encode()) <= self.width]

    def take(self, texts: Sequence[str], losses: Sequence[float], *, stops: bool) -> None:
        """Keep the one that does most harm, if it does more than no edit."""
        best = max(range(len(texts)), key=lambda i: losses[i])
        changed = texts[best] != self.text
        self.text, self.loss, self.edits = texts[best], losses[best], self.edits + changed
        self.done = not changed or (stops and self.loss > 0)


def misspelled(word: str) -> str:
    """The word with two letters in its middle exchanged, or its only letters doubled.

    >>> misspelled("great"), misspelled("ok")
    ('graet', 'okok')
    """
    middle = len(word) // 2
    return word + word if len(word) < 4 else word[:middle] + word[middle + 1] + word[middle] + word[middle + 2 :]


def _joined(words: Sequence[str], place: int, new: Sequence[str]) -> str:
    return joined([*words[:place], *new, *words[place + 1 :]])


def _losses(victim: Victim, searches: Sequence[_Search], texts: Sequence[Sequence[str]]) -> list[list[float]]:
    """How far another class is ahead in each of the texts of every search, all of them evaluated together."""
    every = [text for some in texts for text in some]
    # on the CPU: moved beside the scores below
    labels = torch.tensor([one.label for one, some in zip(searches, texts, strict=True) for _ in some])
    together = max(1, _EVALUATED // victim.passes)
    found: list[float] = []
    for start in range(0, len(every), together):
        scores = victim.scores(encode(every[start : start + together], searches[0].width))
        found += margin(scores, labels[start : start + together].to(scores.device)).double().tolist()
    counts = iter(found)
    return [[next(counts) for _ in some] for some in texts]
