"""Every model in one line: what a reader looks at first."""

from __future__ import annotations

from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Table

__all__ = ["OverviewTable"]


@SECTIONS.register("overview")
class OverviewTable(Section):
    """Clean, attacked, corrupted and certified where the model is shipped to, one line a model."""

    title = "Every model in one line"
    order = 70

    def applies(self) -> bool:
        """Whether anything of the kind was measured."""
        return bool(self.report.overview.rows)

    def tables(self) -> list[Table]:
        """A row for each model."""
        return [self.report.overview.to_table()]

    def words(self) -> list[str]:
        """What the figures are, and where their details stand."""
        small = "Small figures are 95 % intervals. A click on a heading sorts."
        return [*self.report.overview.words, small, *self.report.seed_words]
