"""How sure votes are, sample by sample, and why a mean radius is smaller elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import SOURCE_DASH, Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Line, Mark, Style
from shiftproof.evidence import Measurement, worst_seen
from shiftproof.report.certified import Series, by_setting
from shiftproof.report.section import SECTIONS, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.theory import RadiusGap, radius_gap
from shiftproof.types import FloatArray

__all__ = ["VoteShares", "gap_of_radii", "vote_shares"]

_COLUMNS = ("model", "target", "certificate", "lost", "by_accuracy", "by_radius", "seen_in_training")
_POINTS = 51


@SECTIONS.register("vote-shares")
class VoteShares(Section):
    """How sure votes are on each domain, and what makes a mean radius smaller on the unseen one."""

    title = "How sure the answers are"
    order = 1220

    def applies(self) -> bool:
        """Whether votes were counted, or mean radii can be compared."""
        return bool(self._voted) or bool(self._gaps)

    def tables(self) -> list[Table]:
        """The gap between mean radii, in two parts."""
        if not self._gaps:
            return []
        rows, records = [], []
        for one, gap in self._gaps:
            values = (gap.lost, gap.by_accuracy, gap.by_radius)
            name = self.report.row_name(one.model, one.domain, one.name)
            rows.append(Row([name, *(Cell(f"{value:+.3f}") for value in values)], tint=True))
            alike = [
                other.seen for other in self.report.series if (other.model, other.setting) == (one.model, one.setting)
            ]
            records.append([one.model, one.domain, one.name, *values, worst_seen(alike)])
        heads = [
            Heading("mean radius lost", ("sources less target",)),
            Heading("by accuracy", ("fewer are right",)),
            Heading("by radius", ("the right are less sure",)),
        ]
        return [Table("radius-gap", [Heading("model, domain"), *heads], rows, Records(_COLUMNS, records))]

    def charts(self) -> list[Chart]:
        """The part of samples whose label has at most so many of the votes, by domain."""
        return [_chart(n, series, self.report.targets) for n, series in enumerate(by_setting(self._voted))]

    def words(self) -> list[str]:
        """How to read both."""
        words = []
        if self._voted:
            words.append(
                "Each line shows, for every share of votes, the part of samples whose label got at most that share. "
                "Samples at the left are given up, those at the right are sure. Two models of one mean radius may "
                "differ here: a mean can be bought by giving up hard samples."
            )
        if self._gaps:
            words.append(
                "A mean radius over all samples is the share that is right times the mean radius of those. What the "
                "unseen domain loses of it is split into the two; each counts at the mean of the other's two values."
            )
        return words

    @property
    def _voted(self) -> list[Series]:
        return [one for one in self.report.series if any(len(vote_shares(m)) for m in one.repeats.measurements)]

    @property
    def _gaps(self) -> list[tuple[Series, RadiusGap]]:
        return list(gap_of_radii(self.report.series, self.report.sources, self.report.targets))


def vote_shares(one: Measurement) -> FloatArray:
    """The votes for the label over all votes, of every sample that has votes; nothing where none were counted."""
    if "label_count" not in one:
        return np.zeros(0)
    counted = (one["n"] > 0) & (one["label_count"] >= 0)
    return np.asarray(one["label_count"][counted] / one["n"][counted], np.float64)


def gap_of_radii(
    series: Sequence[Series], sources: Sequence[str], targets: Sequence[str]
) -> Iterator[tuple[Series, RadiusGap]]:
    """Of every model, setting and target, the mean over sources of the split of the gap."""
    for some in by_setting(series):
        for there in (one for one in some if one.domain in targets):
            here = [one for one in some if one.model == there.model and one.domain in sources]
            if here:
                parts = [radius_gap(np.maximum(one.earned, 0), np.maximum(there.earned, 0)) for one in here]
                means = {name: float(np.mean([getattr(one, name) for one in parts])) for name in vars(parts[0])}
                yield there, RadiusGap(**means)


def _chart(number: int, series: Sequence[Series], targets: Sequence[str]) -> Chart:
    """A colour for each model, or of one model for each domain; dashed on sources."""
    shares = np.linspace(0, 1, _POINTS)
    several = len({one.model for one in series}) > 1
    styles = style_of(dict.fromkeys(one.model if several else one.domain for one in series))
    marks = list[Mark]()
    for one in series:
        voted = np.sort(np.concatenate([vote_shares(m) for m in one.repeats.measurements]))
        part = np.searchsorted(voted, shares, side="right") / max(1, len(voted))
        name, source = one.model if several else one.domain, bool(targets) and one.domain not in targets
        style = replace(styles[name], dash=SOURCE_DASH if source else ())
        of, points = (name, "source" if source else "unseen"), list(zip(shares.tolist(), part.tolist(), strict=True))
        hints = [f"{one.model}, {one.domain}: {p:.1%} of samples have at most {x:.0%} of votes" for x, p in points]
        marks += [Line(points, style, of, "after"), Dots(points, style, of, hints, hidden=True)]
    keys = [Key(name, style) for name, style in styles.items()]
    if targets and any(one.domain not in targets for one in series):
        keys += [Key("unseen", Style(None)), Key("source", Style(None, SOURCE_DASH))]
    x = numbers_axis("votes for the label", [0, 1], ticks=[0, 0.25, 0.5, 0.75, 1], percent=True)
    panel = Panel(marks, x, share_axis("samples with at most so many"))
    return Chart("vote-shares" if number == 0 else f"vote-shares-{number + 1}", [panel], keys, series[0].name)
