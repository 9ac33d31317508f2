"""Whether models are as sure as they are right, at home and elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Line, Mark, Style
from shiftproof.report.calibration import BINS, Calibration, calibrations_of
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, points_cell

__all__ = ["CalibrationTable"]

_COLUMNS = (
    "model",
    "domain",
    "confidence",
    "accuracy",
    "too_sure",
    "low",
    "high",
    "calibration_error",
    "n",
    "seen_in_training",
)
_SIDE = 250


@SECTIONS.register("calibration")
class CalibrationTable(Section):
    """Confidence beside accuracy on every domain."""

    title = "Is it as sure as it is right?"
    order = 760

    def applies(self) -> bool:
        """Whether confidence was measured."""
        return bool(self._found)

    def tables(self) -> list[Table]:
        """A row for each model and domain."""
        heads = [
            Heading("model, domain"),
            Heading("accuracy"),
            Heading("mean confidence"),
            Heading("too sure", ("points",)),
            Heading("calibration error", (f"{BINS} bins",)),
        ]
        rows, records = [], []
        for one in self._found:
            accuracy, sure = float(one.right.mean()), float(one.confidence.mean())
            cells = [Cell(f"{accuracy:.1%}"), Cell(f"{sure:.1%}"), points_cell(one.too_sure), Cell(f"{one.error:.3f}")]
            tint = one.domain in self.report.targets
            rows.append(Row([self.report.row_name(one.model, one.domain), *cells], tint=tint))
            e = one.too_sure
            known = [one.error, e.n, one.rows.seen_in_training]
            records.append([one.model, one.domain, sure, accuracy, e.value, e.low, e.high, *known])
        return [Table("calibration", heads, rows, Records(_COLUMNS, records))]

    def charts(self) -> list[Chart]:
        """Accuracy by confidence, one panel a domain."""
        domains = [*self.report.targets, *self.report.sources]
        styles = style_of(dict.fromkeys(one.model for one in self._found))
        panels = [self._panel(name, [one for one in self._found if one.domain == name], styles) for name in domains]
        keys = [Key(model, style, "both") for model, style in styles.items()]
        return [Chart("calibration", panels, keys, columns=3)]

    def words(self) -> list[str]:
        """What the figures are."""
        return [
            "Confidence is what the softmax of the model's logits says of its own answer; nothing guarantees it. Above "
            "the gray line a model is right more often than it says, below it less often. Too sure is mean confidence "
            "less accuracy, in points with a 95 % interval. The calibration error is the mean distance from the line "
            "(Guo et al., 2017), which is above 0 by chance alone on few samples.",
            *self.report.seed_words,
        ]

    @cached_property
    def _found(self) -> list[Calibration]:
        return calibrations_of(self.report.evidence)

    def _panel(self, domain: str, here: Sequence[Calibration], styles: dict[str, Style]) -> Panel:
        marks: list[Mark] = [Line([(0, 0), (1, 1)], Style(None, width=1))]
        for one in here:
            bins, style, of = one.bins(), styles[one.model], (one.model,)
            points = [(sure, right) for sure, right, _ in bins]
            hints = [
                f"{one.model}: says {sure:.0%}, right on {right:.1%} of {count} answers" for sure, right, count in bins
            ]
            marks += [Line(points, replace(style, width=1.5), of), Dots(points, style, of, hints, size=3)]
        x = numbers_axis("confidence", [0, 1], ticks=[0, 0.25, 0.5, 0.75, 1], percent=True)
        title = f"{domain}, {self.report.role_of(domain)}" if self.report.targets else domain
        return Panel(marks, x, share_axis("accuracy"), title, _SIDE, 220)
