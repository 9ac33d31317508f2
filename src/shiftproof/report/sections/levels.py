"""What is smoothed: the label, the representation or the logits, beside each other for every model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from shiftproof.errors import UsageError
from shiftproof.report.claims.figures import Figures
from shiftproof.report.claims.sides import By, Metric, Side
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell
from shiftproof.types import Estimate

__all__ = ["Levels"]

_COLUMNS = ("model", "domain", "role", "what", "metric", "radius", "value", "low", "high", "n")
_LEVELS = ("representation", "logits")


@dataclass(frozen=True)
class _Compared:
    """One model on one domain: medians at a radius, and the vote under the same noise."""

    model: str
    domain: str
    radius: float
    figures: Mapping[tuple[str, str], Estimate]
    """By what is smoothed, and the metric."""


@SECTIONS.register("levels")
class Levels(Section):
    """What is smoothed: the label, the representation or the logits, beside each other for every model."""

    title = "What is smoothed: label, representation or logits"
    order = 1215

    def applies(self) -> bool:
        """Whether medians were certified at a fixed radius."""
        return bool(self._found)

    def tables(self) -> list[Table]:
        """One for each radius, all in one file; the model's own accuracy first."""
        return [self._table(radius) for radius in sorted({one.radius for one in self._found})]

    def words(self) -> list[str]:
        """What the columns mean."""
        return [
            "Right and certified at the radius by the vote of labels, by the head on the median representation, and by "
            "the largest median logit: three classifiers, each with a guarantee of its own. 'Median right' is how "
            "often the median's answer is right, certified or not; 'mean radius' is that of the vote over all samples, "
            "0 where it is wrong or abstains. All bounds hold: what an unsound rule claims stands in a table of its "
            "own.",
            *self.report.seed_words,
        ]

    @cached_property
    def _found(self) -> list[_Compared]:
        figures, found = Figures(self.report.evidence), []
        medians: dict[tuple[str, str], tuple[float, float]] = {}
        for one in self.report.series:
            certifier = one.repeats.fact("certifier")
            if isinstance(certifier, Mapping) and certifier.get("name") == "median-smoothing" and certifier["radius"]:
                medians.setdefault((one.model, one.domain), (float(certifier["radius"]), float(certifier["sigma"])))
        for (model, domain), (radius, sigma) in medians.items():
            known = dict(_measured(figures, model, domain, radius, sigma))
            found.append(_Compared(model, domain, radius, known))
        return found

    def _table(self, radius: float) -> Table:
        rows, records = [], []
        for one in self._found:
            if one.radius != radius:
                continue
            target = one.domain in self.report.targets
            cells = [_cell(one.figures.get(key), key[1]) for key in _shown()]
            rows.append(Row([self.report.row_name(one.model, one.domain), *cells], tint=target))
            head = [one.model, one.domain, "target" if target else "source"]
            records += [
                [*head, what, metric, radius if metric == "certified" else None, e.value, e.low, e.high, e.n]
                for (what, metric), e in one.figures.items()
            ]
        heads = [Heading("model, domain"), *(Heading(what, (_WORDS[metric],)) for what, metric in _shown())]
        return Table("levels", heads, rows, Records(_COLUMNS, records), f"Certified at {radius:g}")


_WORDS = {
    "accuracy": "right",
    "certified": "certified",
    "acr": "mean radius",
    "answers": "median right",
}


def _shown() -> list[tuple[str, str]]:
    medians = [(level, metric) for level in _LEVELS for metric in ("answers", "certified")]
    return [("model itself", "accuracy"), ("label", "certified"), ("label", "acr"), *medians]


def _measured(
    figures: Figures, model: str, domain: str, radius: float, sigma: float
) -> Iterator[tuple[tuple[str, str], Estimate]]:
    """Every figure that there is, by what is smoothed and the metric."""
    vote = By("randomized-smoothing", {"noise": f"gaussian:{sigma!r}"})
    wanted: list[tuple[str, Metric, By | None]] = [
        ("model itself", Metric("accuracy"), None),
        ("label", Metric("certified", radius), vote),
        ("label", Metric("acr"), vote),
    ]
    for level in _LEVELS:
        median = By("median-smoothing", {"level": level, "sigma": sigma, "radius": radius})
        wanted += [(level, Metric("answers"), median), (level, Metric("certified", radius), median)]
    for what, metric, by in wanted:
        # what was not measured, or in several ways, is a gap
        with suppress(UsageError):
            yield (what, metric.kind), figures.find(metric, Side(model, domain, by)).estimate


def _cell(e: Estimate | None, metric: str) -> Cell:
    if e is None:
        return Cell("-")
    if metric == "acr":
        return Cell(f"{e.value:.4f}", (f"{e.low:.3f} to {e.high:.3f}",), e.format("{:.4f}".format))
    return percent_cell(e)
