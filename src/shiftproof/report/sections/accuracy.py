"""Clean accuracy, domain by domain."""

from __future__ import annotations

from typing import Any

from shiftproof.display.axes import share_axis
from shiftproof.display.chart import Chart
from shiftproof.display.marks import Rule, Style
from shiftproof.report.accuracy import AccuracyTable, domain_heading
from shiftproof.report.domain_chart import by_domain
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Table

__all__ = ["Accuracy", "accuracy_chart"]


@SECTIONS.register("accuracy")
class Accuracy(Section):
    """Clean accuracy, domain by domain."""

    title = "Accuracy, domain by domain"
    order = 700

    def applies(self) -> bool:
        """Whether clean accuracy was measured."""
        return bool(self.report.accuracy.rows)

    def tables(self) -> list[Table]:
        """A row for each model."""
        return [self.report.accuracy.to_table("accuracy", self.report.models)]

    def charts(self) -> list[Chart]:
        """Accuracy with intervals."""
        return [accuracy_chart(self.report.accuracy, len(self.report.classes))]

    def words(self) -> list[str]:
        """What the figures are, and which intervals they have."""
        table = self.report.accuracy
        kind = "a bootstrap over whole groups" if self.report.evidence.grouped else "Clopper-Pearson"
        kind = kind if not self.report.seed_words else "a bootstrap and a t interval over seeds"
        gaps = table.rows[0].gaps
        methods = " and ".join(dict.fromkeys(gap.method for gap in gaps.values()))
        what = "the gap, which" if len(gaps) == 1 else "each gap, which"
        method = f", {methods} for {what} is the mean over sources less the unseen domain" if gaps else ""
        which = f"the unseen domain{'s' if len(gaps) > 1 else ''}"
        unseen = f" Training here used {which} for neither." if gaps and self.report.trained_here else ""
        return [
            f"Measured, not guaranteed. Small figures are 95 % intervals, in percent: {kind} for an accuracy{method}. "
            f"{self.report.measured_on}{unseen}",
            *self.report.seed_words,
        ]

    def cards(self) -> list[Card]:
        """The table, unless the table of all measures has the same figures, and the chart."""
        measures = self.report.measures
        shown = not measures.several or measures.beyond
        return [*([Card(self.tables(), self.words())] if shown else []), Card(self.charts())]

    def to_json(self) -> dict[str, Any]:
        """Accuracy, intervals and gaps by model."""
        return self.report.accuracy.figures()


def accuracy_chart(table: AccuracyTable, classes: int) -> Chart:
    """Accuracy with 95 % intervals, domains in order, and a dashed line where guessing is."""
    figures = {row.model: row.accuracy for row in table.rows}
    guess = f"{'; the dashed line is guessing' if classes else ''}"
    return by_domain(
        "accuracy",
        {name: domain_heading(name, table.targets) for name in table.domains},
        figures,
        share_axis("accuracy"),
        words=f"Dots are measured accuracies, bars 95 % intervals{guess}.",
        # how many classes there are may not be known of what was imported
        behind=[Rule(1 / classes, Style(None, (4, 4), width=1))] if classes else [],
    )
