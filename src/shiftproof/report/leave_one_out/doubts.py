"""Why figures of some runs can't be trusted, or say little; what a reader should see before any of them."""

from __future__ import annotations

from collections.abc import Sequence

from shiftproof.report.leave_one_out.section import TargetSection
from shiftproof.report.section import Card

__all__ = ["DoubtsByTarget"]

_LITTLE = "What follows says little ("
"""How a doubt begins that is about a model which has learned little (`Report.doubts`)."""


class DoubtsByTarget(TargetSection):
    """What the page of each run says first, where it has a reason to."""

    title = "Read this first"

    def applies(self) -> bool:
        """Whether any run has a doubt."""
        return bool(self.words())

    def words(self) -> list[str]:
        """One sentence for each doubt, with the domains whose runs have it; models that have learned little in one."""
        known: dict[str, list[str]] = {}
        for target, part in self.parts.items():
            little = [one for one in part.doubts if one.startswith(_LITTLE)]
            others = [one for one in part.doubts if one not in little]
            for doubt in [*others, *([self._little(little)] if little else [])]:
                known.setdefault(doubt, []).append(target)
        return [f"Without {', '.join(targets)}: {doubt}" for doubt, targets in known.items()]

    def _little(self, doubts: Sequence[str]) -> str:
        """The first such doubt, and how many models it is about."""
        if len(doubts) == 1:
            return doubts[0]
        many = "all models" if len(doubts) >= len(self.models) else f"{len(doubts)} of {len(self.models)} models"
        return f"What follows says little of {many} (such as {doubts[0].removeprefix(_LITTLE)}"

    def cards(self) -> list[Card]:
        """The sentences."""
        return [Card(words=self.words())]

    def to_json(self) -> list[str]:
        """The same."""
        return self.words()
