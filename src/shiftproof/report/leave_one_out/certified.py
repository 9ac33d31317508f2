"""What is certified on every domain that was left out: one figure for each kind of noise, one panel for each target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from shiftproof.display.axes import share_axis
from shiftproof.display.chart import SOURCE_DASH, Chart, Key, Panel, style_of
from shiftproof.display.marks import Band, Dots, Line, Mark, Style
from shiftproof.evidence import slug
from shiftproof.evidence.certified import envelope
from shiftproof.report.certified import Series
from shiftproof.report.certified_chart import radius_axis, radius_grid
from shiftproof.report.differences import OneRun, mean_difference
from shiftproof.report.estimates import OverDomains
from shiftproof.report.how_far import KnownPair, mixture_name, value_words
from shiftproof.report.leave_one_out.section import TargetSection
from shiftproof.report.section import Card
from shiftproof.report.tables import Cell, Heading, Records, Row, Table
from shiftproof.statistics import bootstrap_difference, over_seeds
from shiftproof.theory.distances.measures import MEASURES
from shiftproof.types import Estimate, FloatArray

__all__ = ["CertifiedByTarget", "radius_gap"]

_WIDTH, _LOW, _POINTS = 410, 240, 100
_COLUMNS = ("kind", "certificate", "model", "target", "figure", "value", "low", "high")
_SOURCES, _TARGET = "sources (mean)", "left out"
_BESIDE = ("frechet", "frechet-extrapolated", "kernel", "w1-bound")
"""Distances from the mixture of sources that stand below each panel's figures, as far as they are known."""


@dataclass(frozen=True, eq=False)
class _Pair:
    """The certificates of one model under one setting, on the sources of a run and on its target."""

    model: str
    name: str
    target: str
    sources: tuple[Series, ...]
    unseen: Series
    seed: int

    @property
    def source_radius(self) -> float:
        """The mean over sources of their mean radius."""
        return float(np.mean([one.mean_radius() for one in self.sources]))

    def source_curve(self, radii: FloatArray) -> FloatArray:
        """Certified accuracy as the mean over sources."""
        return np.mean([one.curve(radii) for one in self.sources], axis=0)  # type: ignore[no-any-return]

    @cached_property
    def lost(self) -> Estimate:
        """The mean radius on the sources less that on the target."""
        return radius_gap(self.sources, self.unseen, self.seed)


class CertifiedByTarget(TargetSection):
    """Certified accuracy by radius, sources and target, for each kind of noise."""

    title = "What is certified, by the domain that was left out"

    def applies(self) -> bool:
        """Whether anything was certified on sources and targets."""
        return bool(self._pairs)

    def tables(self) -> list[Table]:
        """Mean radii of every model on sources and target, one table for each kind of noise."""
        return [self._table(kind, pairs) for kind, pairs in self._kinds.items()]

    def charts(self) -> list[Chart]:
        """One for each kind of noise, with a panel for each target."""
        return [self._chart(kind, pairs) for kind, pairs in self._kinds.items()]

    def words(self) -> list[str]:
        """What lines and figures are."""
        return [
            "Solid lines are certified accuracy on the domain that was left out, dashed ones the mean over the sources "
            "of the same models. The gray area is the best of all lines on the target at each radius: a picture, and "
            "no classifier's curve. Mean radii are over all samples, with 0 for those that are wrong or abstain; "
            "'lost' is the mean radius on the sources less that on the target, with its 95 % interval over samples and "
            "training seeds, and as a share of that on the sources.",
        ]

    def cards(self) -> list[Card]:
        """A chart and its figures for each kind."""
        return [
            *(
                Card([chart, table], heading=table.caption)
                for chart, table in zip(self.charts(), self.tables(), strict=True)
            ),
            Card(words=self.words()),
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """Every mean radius."""
        rows = [row for kind, pairs in self._kinds.items() for row in _records(kind, pairs)]
        return [dict(zip(_COLUMNS, row, strict=True)) for row in rows]

    @cached_property
    def _pairs(self) -> list[_Pair]:
        found = []
        for target, part in self.parts.items():
            groups: dict[tuple[str, str], list[Series]] = {}
            for one in part.series:
                groups.setdefault((one.model, one.name), []).append(one)
            for (model, name), series in groups.items():
                sources = tuple(one for one in series if one.domain in part.sources)
                unseen = next((one for one in series if one.domain == target), None)
                if sources and unseen is not None:
                    found.append(_Pair(model, name, target, sources, unseen, part.seed))
        return found

    @cached_property
    def _kinds(self) -> dict[str, list[_Pair]]:
        """By kind of noise, norm and units: what may stand in one figure."""
        kinds: dict[str, list[_Pair]] = {}
        for one in self._pairs:
            series = one.unseen
            noise = series.noise.split(" ")[0] if series.noise else series.title
            kinds.setdefault(f"{noise}, radius in {series.norm} ({series.units})", []).append(one)
        return kinds

    def _chart(self, kind: str, pairs: Sequence[_Pair]) -> Chart:
        radii = radius_grid([series for one in pairs for series in (one.unseen, *one.sources)], _POINTS)
        axis = radius_axis(pairs[0].unseen, radii)
        names = dict.fromkeys(_name(one, pairs) for one in pairs)
        styles = style_of(names)
        panels = []
        for target in self.parts:
            here = [one for one in pairs if one.target == target]
            if here:
                marks = [mark for one in here for mark in _lines(one, _name(one, pairs), styles, radii)]
                if len(here) > 1:
                    best = envelope([one.unseen.curve(radii) for one in here])
                    shade = [(float(r), 0.0, float(c)) for r, c in zip(radii, best, strict=True)]
                    marks.insert(0, Band(shade, Style(None, opacity=0.15), step="before"))
                panels.append(Panel(marks, axis, share_axis("certified accuracy"), _heading(here), _WIDTH, _LOW))
        keys = [Key(name, style, "line") for name, style in styles.items()]
        keys += [Key(_TARGET, Style(None), "line"), Key(_SOURCES, Style(None, SOURCE_DASH), "line")]
        words = f"Certified accuracy by radius under {kind}, a panel for each domain that was left out."
        return Chart(f"certified-{slug(kind.split(',')[0])}", panels, keys, words=words, columns=2)

    def _table(self, kind: str, pairs: Sequence[_Pair]) -> Table:
        targets = [name for name in self.parts if any(one.target == name for one in pairs)]
        heads = [Heading("model"), *(Heading(name, ("left out",), tint=True) for name in targets)]
        heads.append(Heading("mean", (f"over {len(targets)} targets",)))
        rows = []
        for name in dict.fromkeys(_name(one, pairs) for one in pairs):
            own = {one.target: one for one in pairs if _name(one, pairs) == name}
            cells = [_radius_cell(own[target]) if target in own else Cell("-") for target in targets]
            rows.append(Row([Cell(name, strong=True), *cells, _mean_cell(list(own.values()), len(targets))]))
        rows += self._distance_rows(targets)
        return Table("radii-by-target", heads, rows, Records(_COLUMNS, list(_records(kind, pairs))), kind)

    def _distance_rows(self, targets: Sequence[str]) -> Iterator[Row]:
        """How far the mixture of sources is from each target, by the measures that are known."""
        known: dict[tuple[str, str, str], KnownPair] = {}
        for target, part in self.parts.items():
            reference = mixture_name(part.sources)
            for one in self.report.domain_distances:
                if (one.reference, one.target) == (reference, target):
                    known[one.features, one.measure, target] = one
        for features in dict.fromkeys(features for features, _, _ in known):
            for measure in _BESIDE:
                here = [known.get((features, measure, target)) for target in targets]
                if any(here):
                    cells = [Cell("-") if one is None else Cell(value_words(one)) for one in here]
                    title = (MEASURES[measure].title, f"features: {features}")
                    yield Row([Cell("distance of the sources", title), *cells, Cell("")])


def radius_gap(sources: Sequence[Series], target: Series, seed: int = 0) -> Estimate:
    """The mean over sources of the mean radius less that of the target, with a 95 % interval over samples and seeds.

    Means are over all samples, with 0 for those that are wrong: accuracy that is lost is a radius that is lost.
    """
    sides, own = [one.radii for one in sources], target.radii
    greatest = max(float(one.averaged.values.max()) for one in [*sides, own])
    found = bootstrap_difference([one.averaged for one in sides], [own.averaged], seed, limits=(0.0, greatest))
    lost = np.mean([one.per_seed for one in sides], axis=0) - own.per_seed
    return over_seeds(found, lost.tolist())


def _name(one: _Pair, pairs: Sequence[_Pair]) -> str:
    """The model, and its certificate where it has several of the kind."""
    several = len({other.name for other in pairs if other.model == one.model}) > 1
    return f"{one.model}, {one.name}" if several else one.model


def _heading(here: Sequence[_Pair]) -> str:
    """The target, and how much of the mean radius is lost there by the model with the largest one."""
    best = max(here, key=lambda one: one.unseen.mean_radius())
    return f"without {best.target}: mean radius {best.source_radius:.3f} to {best.unseen.mean_radius():.3f}"


def _lines(one: _Pair, name: str, styles: dict[str, Style], radii: FloatArray) -> Iterator[Mark]:
    for of, curve, dash in (
        (_TARGET, one.unseen.curve(radii), ()),
        (_SOURCES, one.source_curve(radii), SOURCE_DASH),
    ):
        points = list(zip(radii.tolist(), curve.tolist(), strict=True))
        hints = [f"{name}, {of} ({one.target}), {one.unseen.radius_words(r)}: {share:.1%}" for r, share in points]
        style = replace(styles[name], dash=dash)
        yield Line(points, style, (name, of), "before")
        yield Dots(points[::3], style, (name, of), hints[::3], hidden=True)


def _radius_cell(one: _Pair) -> Cell:
    sign = "+" if one.unseen.biased else ""
    figures = f"{one.unseen.mean_radius():.4f}{sign}"
    lost = _lost_words(one.lost, one.source_radius)
    return Cell(figures, (f"sources {one.source_radius:.4f}", lost), f"{figures}, {lost}")


def _mean_cell(own: Sequence[_Pair], targets: int) -> Cell:
    if len(own) != targets:
        return Cell("-")
    runs = [OneRun(OverDomains(tuple(each.radii for each in one.sources)), one.unseen.radii) for one in own]
    greatest = max(side.greatest for run in runs for side in (run.this, run.that) if not isinstance(side, float))
    several = mean_difference(runs, (0.0, greatest), shares=False, seed=own[0].seed)
    lost = several(0.95) if len(own) > 1 else own[0].lost
    source, unseen = (
        float(np.mean([one.source_radius for one in own])),
        float(np.mean([one.unseen.mean_radius() for one in own])),
    )
    text = _lost_words(lost, source)
    return Cell(f"{unseen:.4f}", (f"sources {source:.4f}", text), f"{unseen:.4f}, {text}")


def _lost_words(lost: Estimate, source: float) -> str:
    """What is lost, and which share of the mean radius on the sources that is, if there is any."""
    share = f", {lost.value / source:+.1%}" if source else ""
    return f"lost {lost.value:+.4f} ({lost.low:+.4f} to {lost.high:+.4f}){share}"


def _records(kind: str, pairs: Sequence[_Pair]) -> Iterator[list[Any]]:
    for one in pairs:
        head = [kind, one.name, one.model, one.target]
        yield [*head, "mean radius on the target", one.unseen.mean_radius(), None, None]
        yield [*head, "mean radius on the sources", one.source_radius, None, None]
        yield [*head, "lost from sources", one.lost.value, one.lost.low, one.lost.high]
        if one.source_radius:
            yield [*head, "share lost from sources", one.lost.value / one.source_radius, None, None]
