"""How far apart the domains are, and what models lose on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from shiftproof.display.axes import numbers_axis
from shiftproof.display.chart import Chart, Key, Panel, style_of
from shiftproof.display.marks import Dots, Mark
from shiftproof.report.how_far import (
    CLEAN,
    Gap,
    KnownPair,
    RelatedGap,
    by_ends,
    gaps_of,
    mixture_name,
    related_gaps,
    value_words,
)
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, points
from shiftproof.theory.distances.measures import MEASURES

__all__ = ["HowFar"]

_COLUMNS = (
    *("measure", "features", "kind", "reference", "target", "value", "standard_error", "low", "high", "level"),
    *("n_reference", "n_target"),
)
_MAIN = "kernel"
"""The measure whose matrix and chart are open on the page: the one without bias."""
_RELATION = "Does distance go with the gap?"
_TWO_TARGETS = "Two targets can't tell: any two are in one order or in the other."


@SECTIONS.register("how-far")
class HowFar(Section):
    """Distances between all domains by several measures, and gaps of models beside them."""

    title = "How far apart"
    order = 1280

    def applies(self) -> bool:
        """Whether somebody has asked (`shiftproof shift --distances --in-report`)."""
        return bool(self.report.domain_distances)

    def tables(self) -> list[Table]:
        """A matrix for each measure, all in one file; sources against targets, with gaps; rank correlations."""
        tables = [
            self._matrix(measure, features) for features in self._features for measure in self._measures(features)
        ]
        return [*tables, *self._against(), *self._correlations()]

    def charts(self) -> list[Chart]:
        """Distance and gap, a point for each target, where a model has several."""
        main = [one for one in self._related if one.measure == self._first and one.figure == CLEAN]
        return [_scatter(main)] if main else []

    def cards(self) -> list[Card]:
        """What stands beside gaps first, then the matrix without bias, then the others, folded."""
        cards = []
        words = (
            ["Rows of other runs are as they were when the distances were measured."] if self.report.other_gaps else []
        )
        for table in self._against():
            cards.append(
                Card([table], words, f"From sources to targets, and what is lost on the way ({table.caption})")
            )
        if found := self._correlations():
            cards.append(Card([*found, *self.charts()], self._words_of_relation(), _RELATION))
        elif self._related:
            cards.append(Card(words=[_TWO_TARGETS], heading=_RELATION))
        for features in self._features:
            for measure in sorted(self._measures(features), key=lambda one: one != self._first):
                known = MEASURES[measure]
                heading = f"{known.title}: {known.about} (features: {features}; {self._sizes(measure, features)})"
                cards.append(Card([self._matrix(measure, features)], heading=heading, folded=measure != self._first))
        return [Card(words=self.words()), *cards]

    def words(self) -> list[str]:
        """What the numbers are, and what they are not."""
        return [
            "Distances between laws of features, from samples without labels; ± is a standard error over samples. "
            "On the diagonal are two halves of one domain: what chance alone gives, with half as many samples. Frechet "
            "and exact Wasserstein distances of few samples are too large: compare them at equal n only. The kernel "
            "distance is not, and may be below 0. Bounds (>=) are proven, each with its own 99 %; a p-value is that of "
            "'both come from one law'.",
            "A distance is no gap: whether a model loses accuracy on the way depends on what it looks at.",
        ]

    def to_json(self) -> dict[str, Any]:
        """All distances, gaps and rank correlations."""
        return {
            "distances": [asdict(one) for one in self.report.domain_distances],
            "gaps": [asdict(one) for one in self._gaps],
            "related": [
                {
                    "measure": one.measure,
                    "features": one.features,
                    "model": one.model,
                    "figure": one.figure,
                    "n": len(one.targets),
                    "spearman": one.spearman.value,
                    "spearman_p": one.spearman.p_value,
                    "kendall": one.kendall.value,
                    "kendall_p": one.kendall.p_value,
                    "undecidable": one.spearman.undecidable,
                }
                for one in self._related
            ],
        }

    @property
    def _features(self) -> list[str]:
        return list(dict.fromkeys(one.features for one in self.report.domain_distances))

    def _measures(self, features: str) -> list[str]:
        known = {one.measure for one in self.report.domain_distances if one.features == features}
        return [measure for measure in MEASURES if measure in known]

    def _sizes(self, measure: str, features: str) -> str:
        """How many samples or groups of each domain."""
        counts = {
            size
            for one in self.report.domain_distances
            if (one.measure, one.features, one.kind) == (measure, features, "pair")
            for size in one.n
        }
        return f"n = {min(counts, default=0):,}" + (f" to {max(counts):,}" if len(counts) > 1 else "")

    @property
    def _first(self) -> str:
        known = self._measures(self._features[0])
        return _MAIN if _MAIN in known else known[0]

    @property
    def _gaps(self) -> list[Gap]:
        own = gaps_of(self.report.evidence, self.report.sources, self.report.targets, self.report.seed)
        return [*own, *self.report.other_gaps]

    @property
    def _related(self) -> list[RelatedGap]:
        return related_gaps(self.report.domain_distances, self._gaps)

    @property
    def _undecidable(self) -> bool:
        return any(one.spearman.undecidable for one in self._related)

    def _matrix(self, measure: str, features: str) -> Table:
        some = [one for one in self.report.domain_distances if (one.measure, one.features) == (measure, features)]
        pairs = {(one.reference, one.target): one for one in some if one.kind != "mixture"}
        pairs |= {(one.target, one.reference): one for one in some if one.kind == "pair"}
        names = list(dict.fromkeys(name for pair in pairs for name in pair))
        rows = [
            Row([Cell(name), *(_cell(pairs.get((name, other))) for other in names)], tint=name in self.report.targets)
            for name in names
        ]
        heads = [Heading("domain"), *(Heading(name, tint=name in self.report.targets) for name in names)]
        records = Records(_COLUMNS, list(map(_record, some)))
        return Table("how-far", heads, rows, records, f"{MEASURES[measure].title}, features: {features}")

    def _against(self) -> list[Table]:
        """Sources of each model against each target: every measure, and the gap."""
        tables = []
        for features in self._features:
            measures = self._measures(features)
            known = by_ends([one for one in self.report.domain_distances if one.features == features])
            rows = [
                Row(
                    [
                        self._row_name(gap),
                        Cell(points(gap.value), (f"{points(gap.low)} to {points(gap.high)}",))
                        if gap.low is not None and gap.high is not None
                        else Cell(points(gap.value)),
                        *(
                            _cell(known.get((measure, features, mixture_name(gap.sources), gap.target)))
                            for measure in measures
                        ),
                    ],
                    tint=True,
                )
                for gap in self._gaps
                if gap.figure == CLEAN
                and any((one, features, mixture_name(gap.sources), gap.target) in known for one in measures)
            ]
            heads = [Heading("model, target"), Heading("gap", ("points lost",))]
            heads += [Heading(MEASURES[measure].title) for measure in measures]
            if rows:
                tables.append(Table("how-far-gaps", heads, rows, caption=f"features: {features}"))
        return tables

    def _row_name(self, gap: Gap) -> Cell:
        origin = f"from {mixture_name(gap.sources)}"
        if gap.run:
            # in this run the domain may be a source
            return Cell(gap.model, (f"{gap.target}, target of the run {gap.run}, {origin}",), strong=True)
        return self.report.row_name(gap.model, gap.target, origin)

    def _correlations(self) -> list[Table]:
        # two targets are in the same order or in the other: always 1 or -1, whatever the distances are
        related = [one for one in self._related if len(one.targets) > 2]
        if not related:
            return []
        rows = [
            Row(
                [
                    Cell(MEASURES[one.measure].title),
                    Cell(one.figure),
                    Cell(f"{one.spearman.value:+.2f}", (f"p = {one.spearman.p_value:.2g}",)),
                    Cell(f"{one.kendall.value:+.2f}", (f"p = {one.kendall.p_value:.2g}",)),
                    Cell(str(len(one.targets))),
                    Cell("undecidable" if one.spearman.undecidable else ""),
                ],
                group=one.model,
            )
            for one in related
        ]
        heads = ["distance", "gap in", "Spearman", "Kendall", "targets", ""]
        return [Table("distance-and-gap", [Heading(text) for text in heads], rows)]

    def _words_of_relation(self) -> list[str]:
        few = max(len(one.targets) for one in self._related if one.spearman.undecidable) if self._undecidable else 0
        words = ["Exact two-sided p-values, over all orders of the targets; no correction for several measures."]
        if few:
            words.append(f"Undecidable with {few} targets: no order of so few has a p-value below 0.05.")
        return words


def _cell(pair: KnownPair | None) -> Cell:
    return Cell("") if pair is None else Cell(*_parts(value_words(pair)))


def _parts(words: str) -> tuple[str, tuple[str, ...]]:
    value, sign, error = words.partition(" ± ")
    return value, ((f"± {error}",) if sign else ())


def _record(one: KnownPair) -> list[Any]:
    start = [one.measure, one.features, one.kind, one.reference, one.target]
    return [*start, one.value, one.standard_error, one.low, one.high, one.level, *one.n]


def _scatter(related: Sequence[RelatedGap]) -> Chart:
    """A point for each target: how far it is from the sources, and what is lost there."""
    styles = style_of(dict.fromkeys(one.model for one in related))
    marks: list[Mark] = [mark for one in related for mark in _marks(one, styles)]
    x = numbers_axis(f"distance from the sources: {MEASURES[related[0].measure].title}", _all(related, "distances"))
    y = numbers_axis("accuracy lost", [0.0, *_all(related, "gaps")], percent=True, grid=True)
    keys = [Key(name, style, "dot") for name, style in styles.items()]
    words = "A point for each target: accuracy lost from the sources to it, by its distance from them."
    return Chart("distance-and-gap", [Panel(marks, x, y)], keys, words=words)


def _marks(one: RelatedGap, styles: Any) -> Iterator[Mark]:
    places = list(zip(one.distances, one.gaps, strict=True))
    hints = [
        f"{one.model}, {target}: {far:.3g} away, {100 * lost:+.1f} points lost"
        for target, (far, lost) in zip(one.targets, places, strict=True)
    ]
    yield Dots(places, styles[one.model], (one.model,), hints, size=5)


def _all(related: Sequence[RelatedGap], name: str) -> list[float]:
    return [value for one in related for value in getattr(one, name)]
