"""Predicted beside true numbers, domain by domain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from shiftproof.display.axes import numbers_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Line, Mark, Style
from shiftproof.report.accuracy import domain_heading
from shiftproof.report.domain_chart import by_domain
from shiftproof.report.scores import ScoreTable
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Table

__all__ = ["Scores"]

_SIDE = 300
_DASHED = "Each dot is a sample; on the dashed line the prediction is exact."


@SECTIONS.register("scores")
class Scores(Section):
    """How well predicted numbers follow the true ones: correlations with intervals, and all samples as dots."""

    title = "Correlation, domain by domain"
    order = 710

    def applies(self) -> bool:
        """Whether labels are numbers, and were predicted."""
        return bool(self.report.scores.rows)

    def tables(self) -> list[Table]:
        """Pearson's and Spearman's correlation and the mean error of each model."""
        return [self.report.scores.to_table("scores", self.report.models)]

    def charts(self) -> list[Chart]:
        """Pearson's correlations with intervals, then predicted against true numbers of every domain."""
        domains = self.report.scores.domains
        return [_correlations(self.report.scores), *(self._dots(name, i) for i, name in enumerate(domains))]

    def cards(self) -> list[Card]:
        """The table with the chart of correlations, and the dots side by side."""
        first, *dots = self.charts()
        return [Card([*self.tables(), first], self.words()), Card(dots, [_DASHED])]

    def words(self) -> list[str]:
        """What the figures are, and which intervals they have."""
        lost = (
            "; what is lost is how much lower a correlation is on the unseen domain than, on average, on the sources, "
            "and how much larger the error"
            if self.report.targets
            else ""
        )
        return [
            f"Measured, not guaranteed. Small figures are 95 % intervals by a bootstrap over samples, or groups where "
            f"there are any{lost}. {self.report.measured_on}",
            *self.report.seed_words,
        ]

    def to_json(self) -> dict[str, Any]:
        """Correlations, intervals and gaps by model."""
        return self.report.scores.figures()

    def _dots(self, domain: str, number: int) -> Chart:
        """Of a model that was trained with several seeds, what the first predicts."""
        styles = style_of(dict.fromkeys(row.model for row in self.report.scores.rows))
        exact = Line([(end, end) for end in self._ends], Style(None, (4, 4), width=1))
        marks: list[Mark] = [exact]
        for model, style in styles.items():
            points = [(one.truth, one.predicted) for one in self._predicted[domain] if one.model == model]
            hints = [f"{model}: {predicted:.3g} where {truth:.3g} is true" for truth, predicted in points]
            marks.append(Dots(points, replace(style, opacity=0.5), (model,), hints, size=2.6))
        x, y = (numbers_axis(title, self._ends, grid=title == "predicted") for title in ("true number", "predicted"))
        panel = Panel(marks, x, y, width=_SIDE, height=_SIDE)
        keys = [Key(model, style, "dot") for model, style in styles.items()]
        return Chart(f"scores-{number + 1}", [panel], keys, domain_heading(domain, self.report.targets))

    @cached_property
    def _predicted(self) -> dict[str, list[_Predicted]]:
        """Finite predictions beside the true numbers, by domain."""
        scores, found = self.report.scores, {}
        for domain in scores.domains:
            found[domain] = [
                _Predicted(model, truth, predicted)
                for model in dict.fromkeys(row.model for row in scores.rows)
                for one in [self.report.evidence.where(probe="score", model=model, domain=domain)[0]]
                for truth, predicted in zip(one["truth"].tolist(), one["predicted"].tolist(), strict=True)
                if math.isfinite(predicted)
            ]
        return found

    @cached_property
    def _ends(self) -> list[float]:
        """The least and the largest number of all domains, so that their charts can be compared."""
        numbers = [number for rows in self._predicted.values() for one in rows for number in (one.truth, one.predicted)]
        return [min(numbers, default=0.0), max(numbers, default=1.0)]


@dataclass(frozen=True)
class _Predicted:
    model: str
    truth: float
    predicted: float


def _correlations(table: ScoreTable) -> Chart:
    """Pearson's correlations with 95 % intervals, domains in order."""
    figures = {
        row.model: {name: e for name, e in row.scores.items() if math.isfinite(e.value)}
        for row in table.rows
        if row.kind == "pearson"
    }
    low = min([0.0, *(e.low for some in figures.values() for e in some.values())])
    return by_domain(
        "scores",
        {name: domain_heading(name, table.targets) for name in table.domains},
        figures,
        # from 0, so that a small loss looks small
        numbers_axis("Pearson's correlation", [low, 1], grid=True),
        words="Dots are measured correlations, bars 95 % intervals.",
        percent=False,
    )
