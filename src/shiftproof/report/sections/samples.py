"""A few samples of every domain, as images or texts."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from shiftproof.report.examples import EditedText
from shiftproof.report.section import SECTIONS, Card, Image, Images, Section, Text, Texts
from shiftproof.report.word_diff import shortened, word_diff

__all__ = ["Samples"]


@SECTIONS.register("samples")
class Samples(Section):
    """A few samples of every domain, as images or texts, and of texts some that were attacked."""

    title = "What the domains look like"
    order = 1300

    def applies(self) -> bool:
        """Whether there are contact sheets or texts."""
        return bool(self.report.sheets or self.report.texts)

    def cards(self) -> list[Card]:
        """The contact sheets side by side; texts by domain, then those that an attack has overturned."""
        rows = ", ".join(self.report.classes[:4])
        sheets = [
            Image(name, f"{self.report.role_of(name)}; rows: {rows}", base64.b64encode(path.read_bytes()).decode())
            for name, path in self.report.sheets.items()
        ]
        cards = [Card([Images(sheets)])] if sheets else []
        for name, examples in self.report.examples.items():
            texts = [Text(shortened(word_diff(one.text, one.text)), one.label) for one in examples.samples]
            cards.append(Card([Texts(texts)], heading=f"{name}, {self.report.role_of(name)}"))
            if examples.edited:
                cards.append(_edited(examples.edited, f"{name}, after an attack that succeeds"))
        return cards

    def to_json(self) -> dict[str, str]:
        """The file of every domain's samples."""
        return {name: path.name for name, path in {**self.report.sheets, **self.report.texts}.items()}


def _edited(edited: Sequence[EditedText], heading: str) -> Card:
    several = len({one.model for one in edited}) > 1
    texts = [
        Text(
            shortened(word_diff(one.before, one.after)),
            f"{f'{one.model}, ' if several else ''}{one.edits}: {one.label} is taken for {one.answer}",
        )
        for one in edited
    ]
    words = "Words that the attack deletes are struck through and red, those that it inserts are underlined and green."
    return Card([Texts(texts)], [words], heading)
