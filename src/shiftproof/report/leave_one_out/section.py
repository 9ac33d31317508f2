"""What the sections of a leave-one-out have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shiftproof.report.report import Report
from shiftproof.report.section import Section

if TYPE_CHECKING:
    from shiftproof.report.leave_one_out.report import LeaveOneOutReport

__all__ = ["TargetSection"]


class TargetSection(Section):
    """A section about several runs, each with one target."""

    report: LeaveOneOutReport

    @property
    def parts(self) -> dict[str, Report]:
        """The report of every run, by the domain that it left out."""
        return {part.targets[0]: part for part in self.report.parts}

    @property
    def models(self) -> list[str]:
        """All models, in the order in which they were measured."""
        return list(dict.fromkeys(str(name) for part in self.report.parts for name in part.evidence.distinct("model")))
