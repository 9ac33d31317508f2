"""How far hidden states of texts move when their embeddings do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from shiftproof.display.axes import numbers_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Boxes, Mark
from shiftproof.evidence import Evidence, Measurement
from shiftproof.report.estimates import Repeats, estimate, repeats_in
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, number_cell
from shiftproof.types import Estimate, FloatArray

__all__ = ["HiddenStates", "Moved", "moved_of"]

_CHANGE, _COSINE = "hidden-change", "hidden-cosine"
_TITLES = {_CHANGE: "change of hidden states (l2)", _COSINE: "1 - cosine of hidden states"}
"""Cosines are so near to 1 that their distance from it is shown."""
_RECORDED = ("model", "domain", "threat", "metric", "value", "low", "high", "n")
_BINS = 30


@dataclass(frozen=True, eq=False)
class Moved:
    """Hidden states of one model on one domain within one threat."""

    rows: Repeats

    @property
    def model(self) -> str:
        """Model name."""
        return self.rows.model

    @property
    def domain(self) -> str:
        """Domain name."""
        return self.rows.domain

    @property
    def threat(self) -> str:
        """Within which embeddings were moved."""
        return f"{self.rows.fact('threat')} {float(self.rows.fact('eps')):g}"

    def mean(self, metric: str) -> Estimate:
        """The mean over samples with its 95 % interval."""
        return estimate(self.rows.values(partial(_of, metric)), exact=False, limits=None)

    def every(self, metric: str) -> FloatArray:
        """Of all samples and seeds."""
        return np.concatenate([_of(metric, one) for one in self.rows.measurements])


@SECTIONS.register("hidden-state")
class HiddenStates(Section):
    """How far hidden states move when embeddings do: means, and histograms over texts."""

    title = "How far hidden states move"
    order = 1050

    def applies(self) -> bool:
        """Whether it was measured."""
        return len(self.report.evidence.where(probe="hidden-state")) > 0

    def tables(self) -> list[Table]:
        """A row for each model, domain and threat."""
        rows, records = [], []
        for one in moved_of(self.report.evidence):
            means = {metric: one.mean(metric) for metric in _TITLES}
            name = self.report.row_name(one.model, one.domain)
            cells = [name, Cell(one.threat), *(number_cell(e) for e in means.values())]
            rows.append(Row(cells, tint=one.domain in self.report.targets))
            for metric, e in means.items():
                records.append([one.model, one.domain, one.threat, _TITLES[metric], e.value, e.low, e.high, e.n])
        heads = [Heading("threat"), Heading("change", ("l2",)), Heading("1 - cosine")]
        return [Table("hidden-state", [Heading("model, domain"), *heads], rows, Records(_RECORDED, records))]

    def charts(self) -> list[Chart]:
        """Two histograms for each domain and threat, with a colour for each model."""
        moved = moved_of(self.report.evidence)
        pairs = list(dict.fromkeys((one.domain, one.threat) for one in moved))
        return [
            _histogram(f"{metric}-{number + 1}", metric, f"{domain}, {threat}", of_pair)
            for number, (domain, threat) in enumerate(pairs)
            for of_pair in [[one for one in moved if (one.domain, one.threat) == (domain, threat)]]
            for metric in _TITLES
        ]

    def cards(self) -> list[Card]:
        """The table, and the histograms."""
        charts = self.charts()
        return [Card(self.tables(), self.words()), *(Card([chart]) for chart in charts)]

    def words(self) -> list[str]:
        """What was measured, and that it is a lower bound."""
        return [
            "Embeddings of each text were moved, within the threat, to where its last hidden states are far from those "
            "of the text as it is; a better search may move them farther. Units are those of each model's own "
            "embedding: an equal threat is a larger change to a model whose embeddings are small."
        ]


def moved_of(evidence: Evidence) -> list[Moved]:
    """One for each model, domain and threat."""
    parts = evidence.where(probe="hidden-state").by("model", "setting")
    return [Moved(one) for part in parts for one in repeats_in(part)]


def _of(metric: str, one: Measurement) -> FloatArray:
    values: FloatArray = one["hidden_change"] if metric == _CHANGE else 1 - one["hidden_cosine"]
    return values


def _histogram(name: str, metric: str, title: str, moved: list[Moved]) -> Chart:
    edges = np.histogram_bin_edges(np.concatenate([one.every(metric) for one in moved]), _BINS)
    styles, marks, most = style_of(one.model for one in moved), list[Mark](), 1
    for one in moved:
        counts, _ = np.histogram(one.every(metric), edges)
        full = [
            (float(low), float(high), int(count))
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
            if count
        ]
        hints = [f"{one.model}, {low:.3g} to {high:.3g}: {count} texts" for low, high, count in full]
        boxes = [(low, high, 0.0, float(count)) for low, high, count in full]
        marks.append(Boxes(boxes, replace(styles[one.model], opacity=0.6), (one.model,), hints))
        most = max(most, *counts.tolist())
    y = numbers_axis("texts", [0, most], ticks=sorted({0, most // 2, most}), grid=True)
    keys = [Key(model, style, "dot") for model, style in styles.items()]
    return Chart(name, [Panel(marks, numbers_axis(_TITLES[metric], edges.tolist()), y)], keys, title)
