"""Robustness matrices: models by the size of the attack, on the sources and on the unseen domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.evidence import Evidence
from shiftproof.perturbations.threat import eps_text
from shiftproof.report.cells import csv_text
from shiftproof.report.chart import heat_map
from shiftproof.report.measures import Measure, measures_of

__all__ = ["Matrix", "matrices_of"]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Accuracy of every model (rows) under attacks of every size (columns, 0 first) in one norm.

    `values` are by role: "sources" (the mean over them) and "unseen".
    """

    norm: str
    units: str
    classifier: str
    models: tuple[str, ...]
    sizes: tuple[float, ...]
    values: dict[str, dict[tuple[str, float], float]]

    @property
    def title(self) -> str:
        """Which attacks."""
        return f"{self.norm} ({self.units}), {self.classifier}"

    def chart(self, role: str) -> dict[str, Any]:
        """A Vega-Lite heat map of one role."""
        columns = [eps_text(size, self.norm) for size in self.sizes]
        cells = [(model, eps_text(size, self.norm), value) for (model, size), value in self.values[role].items()]
        title = "sources (mean)" if role == "sources" else "unseen domain"
        return heat_map(cells, rows=self.models, columns=columns, title=title, x=f"attacked within {self.norm}")

    def csv(self) -> str:
        """One line a number."""
        lines: list[list[Any]] = [["role", "norm", "classifier", "model", "eps", "accuracy"]]
        for role, values in self.values.items():
            for (model, size), value in values.items():
                lines.append([role, self.norm, self.classifier, model, size, value])
        return csv_text(lines)


def worst_of(measures: Sequence[Measure], domains: Sequence[str]) -> float:
    """The part of samples that withstand every one of several attacks, as the mean over domains."""
    left = [np.min([one.samples[domain].values for one in measures], axis=0).mean() for domain in domains]
    return float(np.mean(left))


def matrices_of(evidence: Evidence, sources: Sequence[str], target: str | None) -> list[Matrix]:
    """One for each norm and classifier that was attacked within several sizes."""
    every = [one for model in evidence.distinct("model") for one in measures_of(evidence.where(model=model), model)]
    clean = {(one.model, one.classifier, one.noise): one for one in every if one.kind == "clean"}
    families: dict[tuple[str, str, str, str], list[Measure]] = {}
    for one in every:
        if one.kind == "attacked":
            families.setdefault((one.norm, one.units, one.classifier, one.noise), []).append(one)
    found = []
    for (norm, units, classifier, noise), attacked in families.items():
        sizes = sorted({one.size for one in attacked})
        if len(sizes) < 2:
            continue
        keys = dict.fromkeys((one.model, classifier, noise) for one in attacked)
        measured = [(0.0, clean[key]) for key in keys if key in clean]
        measured += [(one.size, one) for one in attacked]
        roles = {"sources": list(sources), **({} if target is None else {"unseen": [target]})}
        cells: dict[tuple[str, float], list[Measure]] = {}
        for size, one in measured:
            cells.setdefault((one.model, size), []).append(one)
        values = {
            role: {cell: worst_of(some, domains) for cell, some in cells.items()} for role, domains in roles.items()
        }
        models = tuple(dict.fromkeys(one.model for one in attacked))
        columns = tuple(sorted({size for size, _ in measured}))
        named = f"{classifier} classifier" + (f" under {noise}" if noise else "")
        found.append(Matrix(norm, units, named, models, columns, values))
    return found
