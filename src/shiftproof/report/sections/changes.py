"""Samples of every domain under all that was done to samples: noises, deformations and corruptions, as a picture."""

from __future__ import annotations

import base64
from typing import Any

from shiftproof.report.section import SECTIONS, Card, Image, Images, Section

__all__ = ["Changes"]


@SECTIONS.register("changes")
class Changes(Section):
    """A sample of every domain under each noise and corruption that was measured, as a picture."""

    title = "What was done to samples"
    order = 1310

    def applies(self) -> bool:
        """Whether the run has drawn it."""
        return self.report.changes is not None

    def cards(self) -> list[Card]:
        """The picture."""
        assert self.report.changes is not None
        content = base64.b64encode(self.report.changes.read_bytes()).decode()
        picture = Image("samples under noise and corruptions", "", content, "a sample of every domain, changed")
        return [Card([Images([picture], wide=True)], self.words())]

    def words(self) -> list[str]:
        """What is shown."""
        return [
            "A sample of each domain, the first of a random order, under one draw of every noise that certifies or was "
            "added: of one family of noise it is the same draw, scaled. Corruptions are shown at the largest severity "
            "that was measured. What leaves [0, 1] is shown clipped. It is a picture, and measures nothing."
        ]

    def to_json(self) -> Any:
        """The file of the picture."""
        return None if self.report.changes is None else self.report.changes.name
