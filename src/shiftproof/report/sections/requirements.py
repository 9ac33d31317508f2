"""What was required of the run, and whether it is met."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from shiftproof.report.section import SECTIONS, Badge, Badges, Card, Section

__all__ = ["Requirements"]


@SECTIONS.register("requirements")
class Requirements(Section):
    """What was required of the run, and whether it is met."""

    title = "What was required"
    order = 40

    def applies(self) -> bool:
        """Whether anything was required."""
        return bool(self.report.outcomes)

    def cards(self) -> list[Card]:
        """One line a requirement."""
        return [
            Card([Badges([Badge(*_BADGES[one.met], f"{one}.") for one in self.report.outcomes])]),
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """Every requirement with the number that decided it."""
        return [asdict(one) for one in self.report.outcomes]


_BADGES = {True: ("pass", "met"), False: ("fail", "not met")}
