"""Accuracy as probes measured it that have no section of their own: of an adapted model, or by a plug-in."""

from __future__ import annotations

from typing import Any

from shiftproof.evidence import slug
from shiftproof.report.accuracy import ProbeTable
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Table

__all__ = ["ProbeAccuracy"]


@SECTIONS.register("probe-accuracy")
class ProbeAccuracy(Section):
    """Accuracy as probes measured it that have no section of their own: of an adapted model, or by a plug-in."""

    title = "Accuracy by further probes"
    order = 1100

    def applies(self) -> bool:
        """Whether there are such probes."""
        return bool(self._tables)

    def tables(self) -> list[Table]:
        """One for each probe and setting."""
        return [
            one.table.to_table(slug(one.title), self.report.models, f"Accuracy, {one.title}") for one in self._tables
        ]

    def cards(self) -> list[Card]:
        """One for each table."""
        pairs = zip(self.tables(), self._tables, strict=True)
        return [Card([table], [_words(one)], table.caption) for table, one in pairs]

    @property
    def _tables(self) -> list[ProbeTable]:
        return [one for one in self.report.probe_tables if not one.in_section]

    def to_json(self) -> dict[str, Any]:
        """Accuracy, intervals and gaps by title."""
        return {one.title: one.table.figures() for one in self._tables}


def _words(one: ProbeTable) -> str:
    return f"Measured, not guaranteed, of the {one.classifier} classifier: another draw may give other numbers."
