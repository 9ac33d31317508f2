"""How often the classifiers of one model agree: what is measured of one and guaranteed of another is not of both."""

from __future__ import annotations

from functools import cached_property

from shiftproof.report.agreement import Agreement, agreements_of
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, percent_cell
from shiftproof.types import Estimate

__all__ = ["AgreementSection"]

_SHARES = ("same", "abstained", "different", "own accuracy", "other accuracy")
_COLUMNS = ("model", "domain", "role", "other", "classifier", "metric", "value", "low", "high", "n", "seen_in_training")


@SECTIONS.register("agreement")
class AgreementSection(Section):
    """How often the model itself and its smoothed or adapted classifiers give the same answer."""

    title = "Do the classifiers of one model agree?"
    order = 1230

    def applies(self) -> bool:
        """Whether a model has clean answers and a certificate of another classifier than itself."""
        return bool(self._found)

    def tables(self) -> list[Table]:
        """The model itself beside each of the others: on targets, and in the records on sources too."""
        rows, records = [], []
        for one in self._found:
            shares = dict(zip(_SHARES, _shares(one), strict=True))
            name = self.report.row_name(one.model, one.domain, f"itself and its {one.title}")
            cells = [percent_cell(shares[key], strong=key == "same") for key in _SHARES]
            target = one.domain in self.report.targets
            if target or not self.report.targets:
                rows.append(Row([name, *cells, Cell(f"{shares['same'].n:,}")], tint=target))
            head = [one.model, one.domain, "target" if target else "source", one.title, one.classifier]
            records += [[*head, key, e.value, e.low, e.high, e.n, one.seen] for key, e in shares.items()]
        heads = [
            Heading("model, domain, pair"),
            Heading("same answer"),
            Heading("the other abstains"),
            Heading("different answers"),
            Heading("right", ("the model itself",)),
            Heading("right", ("the other",)),
            Heading("n", ("samples of both",)),
        ]
        return [Table("agreement", heads, rows, Records(_COLUMNS, records))]

    def words(self) -> list[str]:
        """What does not follow."""
        return [
            "Each line has two classifiers that are made of the same weights, on the samples that both were asked "
            "about. A guarantee about one says nothing of the other: an attack on the model itself is not one on "
            "the other, and a certificate of the other does not hold for the model itself, also where both agree.",
            *(["What is said of sources stands in the CSV file."] if self.report.targets else []),
            *self.report.seed_words,
        ]

    @cached_property
    def _found(self) -> list[Agreement]:
        found = agreements_of(self.report.evidence)
        return [one for name in (*self.report.targets, *self.report.sources) for one in found if one.domain == name]


def _shares(one: Agreement) -> list[Estimate]:
    return [one.same, one.abstained, one.different, one.own_accuracy, one.other_accuracy]
