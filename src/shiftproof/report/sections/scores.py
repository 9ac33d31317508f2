"""Predicted beside true numbers, domain by domain."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from shiftproof.report.accuracy import domain_heading
from shiftproof.report.chart import LINE, SOFT, Chart, by_colour, by_domain, intervals, layer, make_chart, numbers_axis
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
        models = list(dict.fromkeys(row.model for row in self.report.scores.rows))
        ends = {"scale": {"domain": self._ends, "nice": True}}
        axes = {
            "x": numbers_axis("truth", "true number") | ends,
            "y": {"field": "predicted", "type": "quantitative", "title": "predicted"} | ends,
        }
        exact = [{"truth": end, "predicted": end} for end in self._ends]
        line = layer(exact, {"type": "line", "strokeDash": [4, 4], "strokeWidth": 1, "color": SOFT}, **axes)
        mark = {"type": "circle", "size": 24, "opacity": 0.5}
        dots = layer(self._predicted[domain], mark, **axes, color=by_colour("model", models))
        title = domain_heading(domain, self.report.targets)
        return make_chart(f"scores-{number + 1}", [line, dots], title=title, width=_SIDE, height=_SIDE)

    @cached_property
    def _predicted(self) -> dict[str, list[dict[str, Any]]]:
        """Finite predictions beside the true numbers, by domain."""
        scores, found = self.report.scores, {}
        for domain in scores.domains:
            found[domain] = [
                {"model": model, "truth": truth, "predicted": predicted}
                for model in dict.fromkeys(row.model for row in scores.rows)
                for one in [self.report.evidence.where(probe="score", model=model, domain=domain)[0]]
                for truth, predicted in zip(one["truth"].tolist(), one["predicted"].tolist(), strict=True)
                if math.isfinite(predicted)
            ]
        return found

    @cached_property
    def _ends(self) -> list[float]:
        """The least and the largest number of all domains, so that their charts can be compared."""
        rows = [row for rows in self._predicted.values() for row in rows]
        numbers = [float(row[name]) for row in rows for name in ("truth", "predicted")]
        return [min(numbers, default=0.0), max(numbers, default=1.0)]


def _correlations(table: ScoreTable) -> Chart:
    """Pearson's correlations with 95 % intervals, domains in order."""
    rows = [row for row in table.rows if row.kind == "pearson"]
    models, domains = [row.model for row in rows], [domain_heading(name, table.targets) for name in table.domains]
    values = [
        {"model": row.model, "domain": domain_heading(name, table.targets), "r": e.value, "low": e.low, "high": e.high}
        for row in rows
        for name, e in row.scores.items()
        if math.isfinite(e.value)
    ]
    places = by_domain(domains, models)
    axis = {"grid": True, "gridColor": LINE}
    # from 0, so that a small loss looks small
    scale = {"domain": [min([0.0, *(float(str(one["low"])) for one in values)]), 1]}
    y = {"field": "r", "type": "quantitative", "title": "Pearson's correlation", "scale": scale, "axis": axis}
    dots = layer(values, {"type": "circle", "size": 90, "opacity": 1}, **places, y=y)
    return make_chart(
        "scores",
        [intervals(values, **places), dots],
        words="Dots are measured correlations, bars 95 % intervals.",
        width=max(420, min(860, 230 * len(domains))),
    )
