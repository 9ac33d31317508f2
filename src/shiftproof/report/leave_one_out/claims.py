"""What the study claims: verdicts on the mean over all targets, and of every run on its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shiftproof.report.claims.judge import ClaimOutcome
from shiftproof.report.claims.overview import OVER_TARGETS
from shiftproof.report.leave_one_out.section import TargetSection
from shiftproof.report.section import Badge, Badges, Card
from shiftproof.report.sections.claims import VERDICT_LEVELS, claim_records, difference_words, short_table
from shiftproof.report.tables import Cell, Heading, Records, Row, Table

__all__ = ["ClaimsByTarget"]

_COLUMNS = ("claim", "says", "target", "verdict", "why")


class ClaimsByTarget(TargetSection):
    """The verdict on every claim, over all domains that were left out and by each."""

    title = "What the study claims"

    def applies(self) -> bool:
        """Whether the study makes claims."""
        return bool(self.report.claims)

    def tables(self) -> list[Table]:
        """A row for each claim, a column for the mean and for each target."""
        heads = [Heading("claim"), Heading("what it says"), Heading("mean", (f"over {len(self.parts)} targets",))]
        heads += [Heading("published", ("difference",))]
        heads += [Heading(target, ("left out",), tint=True) for target in self.parts]
        by_target = {target: {one.id: one for one in part.claims} for target, part in self.parts.items()}
        rows = []
        for claim in self.report.claims:
            each = [_cell(known[claim.id]) if claim.id in known else Cell("-") for known in by_target.values()]
            cells = [_cell(claim), short_table([claim]).rows[0].cells[3], *each]
            rows.append(Row([Cell(claim.id, strong=True), Cell(claim.says), *cells]))
        return [Table("claims", heads, rows, self._every_part())]

    def words(self) -> list[str]:
        """How verdicts are made."""
        return [
            "A claim is about the mean over the domains that were left out, each weighing the same; its interval "
            "counts samples and training seeds of every run and says nothing of further domains. Verdicts are "
            "corrected for how many claims there are (Holm). Beside it stand the verdicts of each run about its own "
            "target, corrected for its claims, and not for how many runs there are. Below a verdict is the difference "
            "that decides it, with its 95 % interval: of several parts, that of the one that is farthest from being "
            "supported.",
        ]

    def cards(self) -> list[Card]:
        """Verdicts in short, then the table."""
        claims = self.report.claims
        verdicts = [one.verdict for one in claims]
        counts = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts))
        badges = [Badge(VERDICT_LEVELS.get(one.verdict, "warn"), one.verdict, _line(one)) for one in claims]
        return [
            Card([Badges(badges)], lead=[f"Of {len(verdicts)} claims: {counts}."]),
            Card(self.tables(), self.words(), heading="By the domain that was left out"),
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """Every verdict."""
        return [dict(zip(_COLUMNS, row, strict=True)) for row in self._records()]

    def _every_part(self) -> Records:
        """The comparisons of all claims, of the mean first and then of every run."""
        by_target = {OVER_TARGETS: self.report.claims} | {target: part.claims for target, part in self.parts.items()}
        parts = {target: claim_records(claims) for target, claims in by_target.items()}
        rows = [[target, *row] for target, records in parts.items() for row in records.rows]
        return Records(["target", *parts[OVER_TARGETS].columns], rows)

    def _records(self) -> Iterator[list[Any]]:
        for one in self.report.claims:
            yield [one.id, one.says, OVER_TARGETS, one.verdict, one.why]
        for target, part in self.parts.items():
            for one in part.claims:
                yield [one.id, one.says, target, one.verdict, one.why]


def _cell(one: ClaimOutcome) -> Cell:
    difference = str(short_table([one]).rows[0].cells[2])
    return Cell(one.verdict, () if difference == "-" else (difference,))


def _line(one: ClaimOutcome) -> str:
    figures = difference_words(one)
    return f"{one.id}: {one.says}{f' ({figures})' if figures else ''}."
