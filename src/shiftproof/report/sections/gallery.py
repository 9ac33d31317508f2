"""Samples of every domain, chosen at random: what they look like, and what each model made of them."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

from shiftproof.report.gallery.block import Gallery
from shiftproof.report.section import SECTIONS, Card, Image, Images, Section

__all__ = ["GallerySection"]


@SECTIONS.register("gallery")
class GallerySection(Section):
    """Samples of every domain, chosen at random: what they look like, and what each model made of them."""

    title = "Samples, one by one"
    order = 1300

    def applies(self) -> bool:
        """Whether there are contact sheets or samples of a gallery."""
        return bool(self.report.sheets or self.report.galleries)

    @property
    def gallery(self) -> Gallery:
        """The samples that are shown."""
        return self.report.gallery_maker.gallery

    def cards(self) -> list[Card]:
        """Contact sheets side by side, and the gallery."""
        rows = ", ".join(self.report.classes[:4])
        sheets = [
            Image(name, f"{self.report.role_of(name)}; rows: {rows}", base64.b64encode(path.read_bytes()).decode())
            for name, path in self.report.sheets.items()
        ]
        cards = [Card([self.gallery], self.words())] if self.report.galleries else []
        heading = "The first samples of each class"
        return [*cards, Card([Images(sheets)], heading=heading, folded=bool(cards))] if sheets else cards

    def words(self) -> list[str]:
        """How samples were chosen, and what stands below them."""
        shown = self.gallery.samples
        lines = [
            f"{len(shown)} samples, the first of each domain in the run's random order (a hash of its sample seed and "
            "their ids): no outcome has a say in which these are. Counts are of these samples; shares of all are above."
        ]
        seeds = [one for one in self.report.evidence.distinct("train_seed") if one is not None]
        if len(seeds) > 1:
            lines.append(f"Of models that were trained with several seeds, it is the first that is shown, {seeds[0]}.")
        if self.report.names.private:
            return [*lines, "Pictures and texts are left out, and ids are hashed with a key that stays in run.json."]
        every = [one for file in self.report.galleries.values() for sample in file.samples for one in sample.versions]
        kinds = {one.kind for one in every}
        told = {
            "noisy": "One noisy copy: the first draw of the certificate's noise, one of all its votes.",
            "moved": "At the edge of the certified ball: moved in a random direction by the certified radius, where "
            "the answer is still guaranteed. What leaves [0, 1] is shown clipped.",
            "attacked": "Attacked: the sample as the attack left it, made again from the same seeds and shown where "
            "answer and distance are those that are recorded.",
            "difference": "What it changed is amplified around gray, by the factor below it.",
            "corrupted": "Corrupted: three of all that were measured, a step farther for every sample.",
        }
        return [*lines, " ".join(text for kind, text in told.items() if kind in kinds)] if kinds & set(told) else lines

    def to_json(self) -> dict[str, Any]:
        """The files of contact sheets, and the outcomes of every shown sample by domain, without pictures and texts."""
        found: dict[str, Any] = {}
        for name, file in self.report.galleries.items():
            found[name] = [
                {
                    "id": self.report.names.of(sample.id),
                    "models": {
                        model: {
                            "tags": self.report.gallery_maker.tags(outcomes[sample.id], model, name),
                            **{key: value for key, value in asdict(outcomes[sample.id]).items() if value is not None},
                        }
                        for (model, domain), outcomes in self.report.gallery_maker.outcomes.items()
                        if domain == name
                    },
                }
                for sample in file.samples
            ]
        return {"sheets": {name: path.name for name, path in self.report.sheets.items()}, "samples": found}
