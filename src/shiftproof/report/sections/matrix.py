"""Robustness matrices: models by the size of the attack, on the sources and on every unseen domain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shiftproof.display.chart import Chart, heat_map
from shiftproof.evidence import Evidence, slug
from shiftproof.perturbations.threat import eps_text, size_text
from shiftproof.report.measures import Measure, measures_of
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table

__all__ = ["Matrices", "Matrix", "matrices_of"]

_TITLES = {"sources": "sources (mean)", "unseen": "unseen domain"}
"""What is shown above the first roles; of several targets each has a role of its own."""


@SECTIONS.register("matrix")
class Matrices(Section):
    """Accuracy of every model under attacks of every size, as heat maps."""

    title = "Robustness by size of the attack"
    order = 400

    def applies(self) -> bool:
        """Whether there are attacks of several sizes in one norm."""
        return bool(self.report.matrices)

    def tables(self) -> list[Table]:
        """One for the sources and one for each unseen domain, in one file."""
        return [table for name, matrix in self._named() for table in matrix.tables(name)]

    def charts(self) -> list[Chart]:
        """One for the sources and one for each unseen domain."""
        return [matrix.chart(name, role) for name, matrix in self._named() for role in matrix.values]

    def words(self) -> list[str]:
        """What rows and columns are."""
        return ["Accuracy in percent: rows are models, columns the size of the attack, 0 none."]

    def cards(self) -> list[Card]:
        """The charts of each matrix side by side; of one model, the chart of the attack shows more."""
        if len(self.report.evidence.distinct("model")) == 1:
            return []
        return [
            Card([matrix.chart(name, role) for role in matrix.values], self.words(), matrix.title)
            for name, matrix in self._named()
        ]

    def _named(self) -> Iterator[tuple[str, Matrix]]:
        for number, matrix in enumerate(self.report.matrices):
            yield "matrix" if number == 0 else f"matrix-{number + 1}", matrix


@dataclass(frozen=True, eq=False)
class Matrix:
    """Accuracy of every model (rows) under attacks of every size (columns, 0 first) in one norm.

    `values` are by role: "sources" (the mean over them) and "unseen", or with several targets "unseen: NAME" for each.
    `titles` is what roles are called, where that is something else.
    """

    norm: str
    units: str
    classifier: str
    models: tuple[str, ...]
    sizes: tuple[float, ...]
    values: dict[str, dict[tuple[str, float], float]]
    titles: Mapping[str, str] = field(default_factory=lambda: _TITLES)

    @property
    def title(self) -> str:
        """The norm of the attacks and the classifier that they are on."""
        return f"{self.norm} ({self.units}), {self.classifier}"

    def chart(self, name: str, role: str) -> Chart:
        """A heat map of one role."""
        columns = [eps_text(size, self.norm) for size in self.sizes]
        cells = [(model, eps_text(size, self.norm), value) for (model, size), value in self.values[role].items()]
        labels = {"title": self.titles.get(role, role), "x": f"attacked within {self.norm}"}
        file = "-".join([name, *map(slug, role.split(": ", 1))])
        return heat_map(file, cells, rows=self.models, columns=columns, **labels)

    def tables(self, name: str) -> list[Table]:
        """One for each role, all in the file of the first."""
        first = next(iter(self.values))
        headings = [Heading("model"), *(Heading(size_text(size, self.norm)) for size in self.sizes)]
        tables = []
        for role, values in self.values.items():
            rows = [
                Row([Cell(model), *(Cell(_share(values.get((model, size)))) for size in self.sizes)])
                for model in self.models
            ]
            caption = f"{self.title}: {self.titles.get(role, role)}"
            tables.append(Table(f"{name}-{first}", headings, rows, self._records(role), caption))
        return tables

    def _records(self, role: str) -> Records:
        rows: list[list[Any]] = [
            [role, self.norm, self.classifier, model, size, value] for (model, size), value in self.values[role].items()
        ]
        return Records(["role", "norm", "classifier", "model", "eps", "accuracy"], rows)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def worst_of(measures: Sequence[Measure], domains: Sequence[str]) -> float:
    """The part of samples that withstand every one of several attacks, as the mean over domains."""
    left = []
    for domain in domains:
        # of every seed's model, since a sample that one seed loses and another keeps is lost and kept
        by_seed = zip(*(one.samples[domain].by_seed for one in measures), strict=True)
        left.append(np.mean([np.min([one.values for one in same], axis=0).mean() for same in by_seed]))
    return float(np.mean(left))


def matrices_of(evidence: Evidence, sources: Sequence[str], targets: Sequence[str]) -> list[Matrix]:
    """One for each norm and classifier that was attacked within several sizes."""
    every = [one for model in evidence.distinct("model") for one in measures_of(evidence.where(model=model), model)]
    clean = {(one.model, one.classifier, one.noise): one for one in every if one.kind == "clean"}
    families: dict[tuple[str, str, str, str], list[Measure]] = {}
    for one in every:
        if one.kind == "attacked":
            families.setdefault((one.norm, one.units, one.classifier, one.noise), []).append(one)
    matrices = []
    for (norm, units, classifier, noise), attacked in families.items():
        sizes = sorted({one.size for one in attacked})
        if len(sizes) < 2:
            continue
        keys = dict.fromkeys((one.model, classifier, noise) for one in attacked)
        measured = [(0.0, clean[key]) for key in keys if key in clean]
        measured += [(one.size, one) for one in attacked]
        unseen = {"unseen" if len(targets) == 1 else f"unseen: {target}": [target] for target in targets}
        roles = {role: names for role, names in {"sources": list(sources), **unseen}.items() if names}
        cells: dict[tuple[str, float], list[Measure]] = {}
        for size, one in measured:
            cells.setdefault((one.model, size), []).append(one)
        values = {
            role: {
                cell: worst_of(some, domains)
                for cell, some in cells.items()
                if all(set(domains) <= set(one.samples) for one in some)
            }
            for role, domains in roles.items()
        }
        models = tuple(dict.fromkeys(one.model for one in attacked))
        columns = tuple(sorted({size for size, _ in measured}))
        named = f"{classifier} classifier" + (f" under {noise}" if noise else "")
        matrices.append(Matrix(norm, units, named, models, columns, values))
    return matrices
