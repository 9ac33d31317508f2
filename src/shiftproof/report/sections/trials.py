"""Accuracy by trial, as others have left it: one number for every training, and none for samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import t

from shiftproof.evidence import Evidence, Measurement
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.types import FloatArray

__all__ = ["Trials"]

_COLUMNS = ("model", "domain", "metric", "value", "standard_error", "low", "high", "trials", "selection")
_METRICS = ("accuracy", "source_accuracy", "gap")


@SECTIONS.register("trials")
class Trials(Section):
    """Imported accuracies on domains that training left out: means over trials, by data set."""

    title = "Accuracy of every trial, imported"
    order = 720

    def applies(self) -> bool:
        """Whether accuracies of trials were imported."""
        return len(self.report.evidence.where(probe="trials")) > 0

    def tables(self) -> list[Table]:
        """One for each data set, all in one file."""
        return [self._table(part) for part in self.report.evidence.where(probe="trials").by("dataset")]

    def cards(self) -> list[Card]:
        """A table for each data set, and what the figures are."""
        tables = self.tables()
        return [
            Card([table], self.words() if table is tables[-1] else [], f"{table.caption}: can't be checked here")
            for table in tables
        ]

    def words(self) -> list[str]:
        """What the figures are, and what they are not."""
        return [
            "Accuracy on each domain by models that were trained on the others of its data set. Each figure is the "
            "mean over trials, the small ones are the 95 % t interval over them. Of every trial, hyper-parameters and "
            "step were selected by accuracy on held-out samples of the training domains; since those samples selected, "
            "the figure for training domains, and the gap, are a little too large. Which samples were right is not "
            "known, so that no interval counts them."
        ]

    def _table(self, part: Evidence) -> Table:
        domains = [str(name) for name in part.distinct("domain")]
        rows, records = [], []
        for model in part.distinct("model"):
            measured = {one.domain: one for one in part.where(model=model)}
            cells = [_cell(measured[name]["accuracy"]) if name in measured else Cell("-") for name in domains]
            whole = [_mean_by_trial(list(measured.values()), metric) for metric in _METRICS]
            # a mean over some of the domains is not comparable with one over all
            complete = len(measured) == len(domains) and bool(len(whole[0]))
            means = [_cell(values, metric == "gap") for values, metric in zip(whole, _METRICS, strict=True)]
            means = means if complete else [Cell("-")] * len(whole)
            rows.append(Row([Cell(str(model), strong=True), *cells, *means]))
            for name, one in [*measured.items(), *([("mean", None)] if complete else [])]:
                for place, metric in enumerate(_METRICS):
                    values = whole[place] if one is None else _values(one, metric)
                    low, high = _interval(values)
                    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else ""
                    records.append(
                        [model, name, metric, float(values.mean()), error, low, high, len(values), part[0].title]
                    )
        heads = [Heading(name, ("unseen",), tint=True) for name in domains]
        means_heads = [
            Heading("mean", ("unseen",)),
            Heading("mean", ("training domains",)),
            Heading("gap", ("points lost",)),
        ]
        dataset = str(part[0].fact("dataset"))
        return Table("trials", [Heading("model"), *heads, *means_heads], rows, Records(_COLUMNS, records), dataset)


def _values(one: Measurement, metric: str) -> FloatArray:
    if metric == "gap":
        return np.asarray(one["source_accuracy"] - one["accuracy"], np.float64)
    return np.asarray(one[metric], np.float64)


def _mean_by_trial(measurements: Sequence[Measurement], metric: str) -> FloatArray:
    """The mean over domains, of every trial that has them all."""
    by_trial = [dict(zip(one["id"].tolist(), _values(one, metric).tolist(), strict=True)) for one in measurements]
    shared = [trial for trial in by_trial[0] if all(trial in one for one in by_trial)]
    return np.array([np.mean([one[trial] for one in by_trial]) for trial in shared])


def _interval(values: FloatArray) -> tuple[float | str, float | str]:
    """The 95 % t interval of the mean; nothing of a single trial."""
    if len(values) < 2:
        return "", ""
    # of few trials it reaches beyond what an accuracy can be
    reach = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    least = 0.0 if (values >= 0).all() else -1.0
    return max(least, float(values.mean() - reach)), min(1.0, float(values.mean() + reach))


def _cell(values: FloatArray, points: bool = False) -> Cell:
    if not len(values):
        return Cell("-")
    low, high = _interval(values)
    count = f"{len(values)} trial{'s' if len(values) > 1 else ''}"
    below = (f"{100 * float(low):.1f} to {100 * float(high):.1f}", count) if low != "" else (count,)
    return Cell(f"{100 * values.mean():+.1f}" if points else f"{values.mean():.1%}", below)
