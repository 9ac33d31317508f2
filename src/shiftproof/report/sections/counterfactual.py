"""What a certificate carries across to the same samples in another domain."""

from __future__ import annotations

from shiftproof.report.estimates import Repeats, Values, estimate, repeats_in
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell

__all__ = ["Counterfactual"]


@SECTIONS.register("counterfactual")
class Counterfactual(Section):
    """What a certificate carries across to the same samples in another domain."""

    title = "The same samples in another domain"
    order = 1250

    def applies(self) -> bool:
        """Whether pairs were measured."""
        return len(self.report.evidence.where(probe="counterfactual")) > 0

    def tables(self) -> list[Table]:
        """A row for each model and domain."""
        rows, records = [], []
        for one in repeats_in(self.report.evidence.where(probe="counterfactual")):
            shares = {"guaranteed to keep the class": _share(one, "radius"), "keep the class": _share(one, "margin")}
            estimates = {name: estimate(values, exact=not one.grouped) for name, values in shares.items()}
            distance = float(one.column("distance").mean())
            cells = [self.report.row_name(one.model, one.domain), Cell(f"{distance:.3g}")]
            rows.append(Row([*cells, *map(percent_cell, estimates.values())], tint=one.domain in self.report.targets))
            records.append([one.model, one.domain, "mean distance", distance, "", "", len(one.first)])
            for name, e in estimates.items():
                records.append([one.model, one.domain, name, e.value, e.low, e.high, e.n])
        heads = [
            Heading("distance", ("representation",), "distance in the representation"),
            Heading("guaranteed", ("to keep the class",)),
            Heading("measured", ("to keep the class",)),
        ]
        columns = ["model", "domain", "metric", "value", "low", "high", "n"]
        return [Table("counterfactual", [Heading("model, domain"), *heads], rows, Records(columns, records))]

    def words(self) -> list[str]:
        """What a pair is."""
        return [
            "Every sample is paired with itself as it would look in another domain. Guaranteed: the certificate at the "
            "sample proves the class of its pair. Measured: the pair has that class. Small figures are 95 % intervals, "
            "in percent."
        ]


def _share(one: Repeats, column: str) -> Values:
    return one.values(lambda measurement: measurement[column] > 0)
