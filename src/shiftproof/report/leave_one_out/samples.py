"""Pictures of what was left out."""

from __future__ import annotations

import base64

from shiftproof.report.leave_one_out.section import TargetSection
from shiftproof.report.section import Card, Image, Images

__all__ = ["SamplesByTarget"]


class SamplesByTarget(TargetSection):
    """Samples of every domain that was left out."""

    title = "What was left out"

    def applies(self) -> bool:
        """Whether the runs keep pictures."""
        return bool(self._images())

    def cards(self) -> list[Card]:
        """One picture for each target."""
        return [Card([Images(self._images(), wide=True)])]

    def _images(self) -> list[Image]:
        return [
            Image(target, f"{target}, which the run was not trained on", _png(part.sheets[target].read_bytes()))
            for target, part in self.parts.items()
            if target in part.sheets
        ]


def _png(content: bytes) -> str:
    return base64.b64encode(content).decode()
