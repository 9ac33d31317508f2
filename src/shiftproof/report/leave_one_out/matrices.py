"""Models by the size of attacks: the mean over all sources and runs, the mean over targets, and every target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shiftproof.display.chart import Chart
from shiftproof.report.leave_one_out.section import TargetSection
from shiftproof.report.section import Card
from shiftproof.report.sections.matrix import Matrix
from shiftproof.report.tables import Table

__all__ = ["MatricesByTarget"]

_TITLES = {"sources": "sources (mean over runs)", "unseen": "left out (mean over targets)"}


class MatricesByTarget(TargetSection):
    """Accuracy of every model under attacks of every size, as heat maps."""

    title = "Robustness by size of the attack"

    def applies(self) -> bool:
        """Whether there are attacks of several sizes in one norm."""
        return bool(self._matrices)

    def tables(self) -> list[Table]:
        """One for each role, in one file for each norm."""
        return [table for name, matrix in self._named() for table in matrix.tables(name)]

    def charts(self) -> list[Chart]:
        """One for each role."""
        return [matrix.chart(name, role) for name, matrix in self._named() for role in matrix.values]

    def words(self) -> list[str]:
        """What rows and columns are."""
        return ["Accuracy in percent: rows are models, columns the size of the attack, 0 none."]

    def cards(self) -> list[Card]:
        """The charts of each norm side by side."""
        return [
            Card([matrix.chart(name, role) for role in matrix.values], self.words(), matrix.title)
            for name, matrix in self._named()
        ]

    def _named(self) -> Iterator[tuple[str, Matrix]]:
        for number, matrix in enumerate(self._matrices):
            yield "matrix" if number == 0 else f"matrix-{number + 1}", matrix

    @property
    def _matrices(self) -> list[Matrix]:
        titles = dict.fromkeys(one.title for part in self.report.parts for one in part.matrices)
        return [self._joined(title) for title in titles]

    def _joined(self, title: str) -> Matrix:
        """The matrices of one norm and classifier in all runs, as one."""
        own = {target: one for target, part in self.parts.items() for one in part.matrices if one.title == title}
        first = next(iter(own.values()))
        values = {
            "sources": _mean([one.values["sources"] for one in own.values() if "sources" in one.values]),
            "unseen": _mean([one.values["unseen"] for one in own.values() if "unseen" in one.values]),
        }
        if len(own) > 1:
            values |= {f"unseen: {target}": one.values["unseen"] for target, one in own.items()}
        models = tuple(dict.fromkeys(name for one in own.values() for name in one.models))
        sizes = tuple(sorted({size for one in own.values() for size in one.sizes}))
        titles = _TITLES | {f"unseen: {target}": f"{target} left out" for target in own}
        values = {role: cells for role, cells in values.items() if cells}
        return replace(first, models=models, sizes=sizes, values=values, titles=titles)


def _mean(matrices: list[dict[tuple[str, float], float]]) -> dict[tuple[str, float], float]:
    """The mean of every cell that all of them have."""
    if not matrices:
        return {}
    shared = [cell for cell in matrices[0] if all(cell in one for one in matrices)]
    return {cell: float(np.mean([one[cell] for one in matrices])) for cell in shared}
