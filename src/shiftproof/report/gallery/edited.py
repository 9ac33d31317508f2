"""Texts that an attack has overturned, of those that a gallery shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shiftproof.report.gallery.build import GalleryMaker
from shiftproof.report.gallery.words import class_name, distance_text
from shiftproof.report.word_diff import Piece, shortened, word_diff

__all__ = ["EditedText", "edited_texts"]


@dataclass(frozen=True)
class EditedText:
    """A text that an attack has overturned: of which model, by how many edits, from which class to which."""

    domain: str
    model: str
    edits: str
    label: str
    answer: str
    before: str
    after: str
    pieces: Sequence[Piece]


def edited_texts(maker: GalleryMaker) -> Iterator[EditedText]:
    """The texts whose answer an attack made wrong, domain by domain; none on a page without samples."""
    for domain, file in maker.files.items() if not maker.names.private else ():
        for sample in file.samples:
            before = next((one.text for one in sample.versions if one.kind == "original"), None)
            for one in sample.versions:
                outcome = maker.outcomes.get((one.model, domain), {}).get(sample.id)
                if one.kind != "attacked" or before is None or one.text is None or outcome is None:
                    continue
                for attack in outcome.broken_by:
                    if attack.setting == one.setting and outcome.label is not None:
                        yield EditedText(
                            domain,
                            one.model,
                            distance_text(attack.distance, attack.norm),
                            class_name(outcome.label, maker.classes),
                            class_name(attack.answer, maker.classes),
                            before,
                            one.text,
                            shortened(word_diff(before, one.text)),
                        )
