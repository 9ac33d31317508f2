"""What searches in the representation reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from shiftproof.evidence import Evidence, Measurement
from shiftproof.report.estimates import Repeats, SeedValues, Values, estimate, one_repeat, repeats_in
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell
from shiftproof.types import Estimate, FloatArray

__all__ = ["Search", "Searched", "searched_of"]

_COLUMNS = ("model", "domain", "norm", "eps", "metric", "value", "low", "high", "n")


@dataclass(frozen=True)
class Searched:
    """Of one model on one domain: the part of predictions that a search changes within each size.

    `moved` is how far representations moved where that happened within the largest, and `nearest` how far the nearest
    adversarial one is, both over the length of the one before.
    """

    model: str
    domain: str
    norm: str
    reached: dict[float, Estimate]
    moved: float | None
    nearest: float

    @property
    def sizes(self) -> str:
        """The columns of its table."""
        return f"{self.norm} {', '.join(f'{size:g}' for size in self.reached)}"


@SECTIONS.register("search")
class Search(Section):
    """What searches in the representation reach: predictions changed within each size."""

    title = "What a search in the representation reaches"
    order = 900

    def applies(self) -> bool:
        """Whether there was a search."""
        return bool(self._searched())

    def tables(self) -> list[Table]:
        """One for all searches of the same sizes, all in one file."""
        searched = self._searched()
        by_sizes = [[one for one in searched if one.sizes == sizes] for sizes in sorted({s.sizes for s in searched})]
        return [self._table(part) for part in by_sizes]

    def words(self) -> list[str]:
        """What was searched for."""
        return [
            "Measured: gradient descent from each sample towards an input whose representation another class wins. "
            "Distances of representations are divided by the length of the one before. The nearest adversarial "
            "representation is exact, and every linear head has one: what counts is whether an input within the size "
            "leads there."
        ]

    def cards(self) -> list[Card]:
        """One for each table."""
        return [Card([table], self.words()) for table in self.tables()]

    def _searched(self) -> list[Searched]:
        return searched_of(self.report.evidence)

    def _table(self, searched: Sequence[Searched]) -> Table:
        first, rows, records = searched[0], [], []
        for one in searched:
            moved = "-" if one.moved is None else f"{one.moved:.3f}"
            name = self.report.row_name(one.model, one.domain)
            cells = [name, *map(percent_cell, one.reached.values()), Cell(moved), Cell(f"{one.nearest:.3f}")]
            rows.append(Row(cells, tint=one.domain in self.report.targets))
            head = [one.model, one.domain, one.norm]
            records += [
                [*head, size, "predictions changed", e.value, e.low, e.high, e.n] for size, e in one.reached.items()
            ]
            others = {"representation moved": one.moved, "nearest adversarial representation": one.nearest}
            records += [
                [*head, "", metric, "" if value is None else value, "", "", ""] for metric, value in others.items()
            ]
        headings = [
            Heading("model, domain"),
            *(Heading(f"{first.norm} {size:.3g}", ("predictions changed",)) for size in first.reached),
            Heading("moved", ("representation",), "representation moved"),
            Heading("nearest", ("adversarial one",), "nearest adversarial representation"),
        ]
        return Table("search", headings, rows, Records(_COLUMNS, records), first.sizes)


def searched_of(evidence: Evidence) -> list[Searched]:
    """One for each model, domain and search."""
    found = []
    for part in evidence.where(probe="search").by("model", "domain", "search"):
        first, before = part[0], one_repeat(part, eps=0.0)
        sizes = {float(one.fact("eps")): one for one in repeats_in(part) if one.fact("eps")}
        reached, moved = {}, None
        for size, after in sorted(sizes.items()):
            changed, distances = _changed(after, before)
            reached[size] = estimate(changed, exact=False)
            if len(distances):
                moved = float(np.mean(distances))
        # the nearest adversarial representation has no size
        nearest = one_repeat(part, eps=None).column("latent_distance")
        finite = nearest[np.isfinite(nearest)]
        near = float(finite.mean()) if len(finite) else float("inf")
        found.append(Searched(first.model, first.domain, str(first.fact("norm")), reached, moved, near))
    return found


def _changed(after: Repeats, before: Repeats) -> tuple[Values, FloatArray]:
    """Which predictions a search has changed, and how far their representations moved."""
    pairs = after.pairs(before)
    distances = [one["latent_distance"][_differs(one, other)] for one, other in pairs]
    values = tuple(SeedValues(one, partial(_differs, one, other)) for one, other in pairs)
    return Values(values), np.concatenate([np.zeros(0), *distances])


def _differs(one: Measurement, other: Measurement) -> NDArray[np.bool_]:
    differs: NDArray[np.bool_] = one["prediction"] != other["prediction"]
    return differs
