"""What the study claims, what evidence says of it, and what was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from shiftproof.report.claims.compare import PartOutcome
from shiftproof.report.claims.judge import ClaimOutcome
from shiftproof.report.section import SECTIONS, Badge, Badges, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, points
from shiftproof.types import Estimate

__all__ = ["VERDICT_LEVELS", "Claims", "claim_records", "difference_words", "short_table"]

VERDICT_LEVELS = {"supported": "pass", "contradicted": "fail"}


@SECTIONS.register("claims")
class Claims(Section):
    """What the study claims, what evidence says of it, and what was published."""

    title = "What the study claims"
    order = 150

    def applies(self) -> bool:
        """Whether the study makes claims."""
        return bool(self.report.claims)

    def tables(self) -> list[Table]:
        """The verdict on every claim, and the figures of all that was compared."""
        compared = any(one.parts for one in self.report.claims)
        return [_table(self.report.claims), *([_compared(self.report.claims)] if compared else [])]

    def words(self) -> list[str]:
        """How verdicts are made."""
        return [
            "Claims were written into the study, each with the smallest effect that matters, before anything was "
            "trained. Supported: the whole interval of the difference lies beyond that effect, for every part. "
            "Contradicted: it lies short of it, for some part, so that what is claimed is not there; that the reverse "
            "is true is said where it is so. Undecided: neither. Intervals count samples, by a bootstrap, and training "
            "seeds, by t intervals; with fewer than three seeds nothing is decided. P-values of claims are corrected "
            "for how many there are (Holm); those of parts are not. Published figures stand as they were printed.",
        ]

    def cards(self) -> list[Card]:
        """One line a claim, and the figures of all that was compared."""
        claims = self.report.claims
        verdicts = [one.verdict for one in claims]
        counts = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(verdicts))
        badges = [Badge(VERDICT_LEVELS.get(one.verdict, "warn"), one.verdict, _line(one)) for one in claims]
        lines = Card([Badges(badges)], self.words(), lead=[f"Of {len(verdicts)} claims: {counts}."])
        figures = self.tables()[1:]
        return [lines, *([Card(figures, heading="What was compared")] if figures else [])]

    def to_json(self) -> list[dict[str, Any]]:
        """Every claim with its parts."""
        return [
            asdict(one)
            | {"parts": [asdict(part) | {"published_difference": part.published_difference} for part in one.parts]}
            for one in self.report.claims
        ]


def short_table(claims: Sequence[ClaimOutcome]) -> Table:
    """Verdict and difference of every claim; of several parts, of the one that is farthest from being supported."""
    head = [Heading(text) for text in ("claim", "verdict", "difference", "published")]
    return Table("claims", head, [Row([_name(one), Cell(one.verdict), *_weakest(one)]) for one in claims])


def difference_words(claim: ClaimOutcome) -> str:
    """The difference that decides a claim, in a phrase; nothing where nothing was compared."""
    difference, published = (str(cell) for cell in _weakest(claim))
    if difference == "-":
        return ""
    what = "difference" if len(claim.parts) == 1 else f"weakest of {len(claim.parts)} differences"
    return f"{what} {difference}{'' if published == '-' else f'; published {published}'}"


def _table(claims: Sequence[ClaimOutcome]) -> Table:
    """The same for files, with what each claim says and why it was judged so; the records have every part."""
    head = [Heading(text) for text in ("claim", "what it says", "verdict", "difference", "published", "why")]
    rows = [
        Row([_name(one), Cell(one.says), Cell(one.verdict, _p_values(one)), *_weakest(one), Cell(one.why)])
        for one in claims
    ]
    return Table("claims", head, rows, claim_records(claims))


def _name(one: ClaimOutcome) -> Cell:
    return Cell(one.id, (f"weakest of {len(one.parts)} parts",) if len(one.parts) > 1 else (), strong=True)


def _weakest(one: ClaimOutcome) -> list[Cell]:
    """The difference of the part that is farthest from being supported, ours and published."""
    part = one.weakest
    return [Cell("-"), Cell("-")] if part is None else [_difference(part), _published_difference(part)]


def _p_values(one: ClaimOutcome) -> tuple[str, ...]:
    return () if one.p is None else (f"p {_p(one.p)}, against it {_p(one.p_against)}",)


def _line(one: ClaimOutcome) -> str:
    p = "".join(f" ({text})" for text in _p_values(one))
    return f"{one.id}: {one.says}. {one.why[:1].upper()}{one.why[1:]}{p}."


def _compared(claims: Sequence[ClaimOutcome]) -> Table:
    """The figures of every part, for the page: both sides and their difference, ours and published."""
    head = [
        Heading("comparison", ("the smaller figure below is its interval",)),
        *(Heading(text) for text in ("ours", "compared with", "difference")),
        *(Heading(text, ("published",)) for text in ("claimed", "compared with", "difference")),
        Heading("interval alone"),
    ]
    rows = []
    for one in claims:
        for place, part in enumerate(one.parts, 1):
            name = one.id if len(one.parts) == 1 else f"{one.id}, part {place}"
            ours = [Cell("-") if e is None else _figure(e, part) for e in (part.this, part.that)]
            known = [part.published_this, part.published_that if part.published_this is not None else None]
            published = [Cell("-" if value is None else _number(value, part)) for value in known]
            figures = [*ours, _difference(part), *published, _published_difference(part)]
            rows.append(Row([Cell(name, (part.sentence,), strong=True), *figures, Cell(part.verdict)]))
    return Table("claim-figures", head, rows)


def _difference(part: PartOutcome) -> Cell:
    return Cell("-") if part.difference is None else _figure(part.difference, part, signed=True)


def _published_difference(part: PartOutcome) -> Cell:
    known = part.published_difference
    return Cell("-" if known is None else _number(known, part, signed=True))


def _figure(e: Estimate, part: PartOutcome, *, signed: bool = False) -> Cell:
    """A figure of a part with its interval: shares in percent, their difference in points, radii as they are."""
    value, low, high = (_number(one, part, signed=signed) for one in (e.value, e.low, e.high))
    return Cell(value, (f"{low} to {high}",), f"{value} ({low} to {high})") if e.low < e.high else Cell(value)


def _number(value: float, part: PartOutcome, *, signed: bool = False) -> str:
    if part.is_share:
        return points(value) if signed else f"{value:.1%}"
    return f"{value:+.4f}" if signed else f"{value:.4f}"


def _p(value: float | None) -> str:
    return "-" if value is None else "below 0.0001" if value < 1e-4 else f"{value:.2g}"


def claim_records(claims: Sequence[ClaimOutcome]) -> Records:
    """Every comparison of every claim: verdicts, figures of both sides, what was published."""
    columns = [
        *("claim", "says", "verdict", "why", "p", "p against", "confidence", "part", "sentence", "part verdict"),
        *("this", "this low", "this high", "that", "that low", "that high"),
        *("difference", "difference low", "difference high"),
        *("published this", "published that", "published difference"),
    ]
    rows = []
    for claim in claims:
        head = [claim.id, claim.says, claim.verdict, claim.why, claim.p, claim.p_against, claim.confidence]
        if not claim.parts:
            rows.append([*head, *[None] * (len(columns) - len(head))])
        for place, part in enumerate(claim.parts):
            figures = [one for e in (part.this, part.that, part.difference) for one in _limits(e)]
            published = part.published_this, part.published_that, part.published_difference
            rows.append([*head, place + 1, part.sentence, part.verdict, *figures, *published])
    return Records(columns, rows)


def _limits(e: Estimate | None) -> list[float | None]:
    return [None, None, None] if e is None else [e.value, e.low, e.high]
