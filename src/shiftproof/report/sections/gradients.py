"""What raises the loss of a model, pixel by pixel, as pictures: clean and under noise, as trained and adapted."""

from __future__ import annotations

import base64
from typing import Any

from shiftproof.report.section import SECTIONS, Card, Image, Images, Section

__all__ = ["Gradients"]


@SECTIONS.register("gradients")
class Gradients(Section):
    """Loss gradients on a few samples as pictures: clean and under noise, as trained and adapted."""

    title = "What the loss gradient looks like under noise"
    order = 1090

    def applies(self) -> bool:
        """Whether the run has drawn such pictures."""
        return bool(self.report.gradients)

    def cards(self) -> list[Card]:
        """A picture for each domain."""
        images = [
            Image(name, self.report.role_of(name), base64.b64encode(path.read_bytes()).decode(), f"gradients on {name}")
            for name, path in self.report.gradients.items()
        ]
        return [Card([Images(images, wide=True)], self.words())]

    def words(self) -> list[str]:
        """What is shown, and that nothing follows from it."""
        return [
            "Of the first two samples of a domain in the run's random order: the image, and the gradient of its "
            "cross-entropy with respect to its pixels, on the image as it is and under one draw of the largest noise "
            "that the study adapts to; of the model as trained, and of its copy whose BatchNorm is adapted to that "
            "noise. Gray is 0. Every picture is scaled by the 99th percentile of its own absolute values and clipped, "
            "so that sizes can't be compared between pictures. Pictures are no measure: they are two samples."
        ]

    def to_json(self) -> Any:
        """The files of the pictures."""
        return {name: path.name for name, path in self.report.gradients.items()}
