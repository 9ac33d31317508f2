"""Why figures of some runs can't be trusted, or say little; what a reader should see before any of them."""

from __future__ import annotations

from shiftproof.report.leave_one_out.section import TargetSection
from shiftproof.report.section import Card

__all__ = ["DoubtsByTarget"]


class DoubtsByTarget(TargetSection):
    """What the page of each run says first, where it has a reason to."""

    title = "Read this first"

    def applies(self) -> bool:
        """Whether any run has a doubt."""
        return bool(self.words())

    def words(self) -> list[str]:
        """One sentence for each doubt, with the domains whose runs have it."""
        known: dict[str, list[str]] = {}
        for target, part in self.parts.items():
            for doubt in part.doubts:
                known.setdefault(doubt, []).append(target)
        return [f"Without {', '.join(targets)}: {doubt}" for doubt, targets in known.items()]

    def cards(self) -> list[Card]:
        """The sentences."""
        return [Card(words=self.words())]

    def to_json(self) -> list[str]:
        """The same."""
        return self.words()
