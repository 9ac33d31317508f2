"""How the run was made: data, models, seeds, hashes, versions and the machine."""

from __future__ import annotations

from shiftproof.report.section import SECTIONS, Card, Facts, Section

__all__ = ["Provenance"]


@SECTIONS.register("provenance")
class Provenance(Section):
    """How the run was made: data, models, seeds, hashes, versions and the machine."""

    title = "How it was made"
    order = 1400

    def applies(self) -> bool:
        """Always."""
        return True

    def cards(self) -> list[Card]:
        """One line a fact."""
        return [Card([Facts(self.report.facts)])]

    def to_json(self) -> dict[str, str]:
        """The facts by name."""
        return dict(self.report.facts)
