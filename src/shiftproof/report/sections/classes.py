"""Which classes suffer from the shift, and what they are taken for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from shiftproof.display.chart import Chart, Panel, heat_map
from shiftproof.report.confusion import ClassAnswers, answers_by_class
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table, points

__all__ = ["Classes"]

_DRAWN = 12
"""Classes whose answers are drawn; of more, the commonest mistakes are listed."""
_LISTED = 12


@SECTIONS.register("classes")
class Classes(Section):
    """Accuracy by class and what is taken for what, on sources and targets."""

    title = "Class by class: what is right, what is taken for what"
    order = 740

    def applies(self) -> bool:
        """Whether labels and answers are known of more than one class."""
        return bool(self._answers) and len(self.report.classes) > 1

    def tables(self) -> list[Table]:
        """Accuracy by class, and the commonest mistakes."""
        return [self._by_class(), self._mistakes()]

    def charts(self) -> list[Chart]:
        """What is taken for what, a map for the sources and one for each target; of few classes."""
        if len(self.report.classes) > _DRAWN:
            return []
        return [self._map(place, some) for place, some in enumerate(self._models.values())]

    def cards(self) -> list[Card]:
        """A folded card for each model, below the one that all models share."""
        charts = dict(zip(self._models, self.charts(), strict=False))
        tables = {model: [_of_model(table, model) for table in self.tables()] for model in self._models}
        words = self.words()
        cards = []
        for place, model in enumerate(self._models):
            by_class, mistakes = tables[model]
            shown = [by_class, *([charts[model]] if model in charts else [mistakes])]
            last = place == len(self._models) - 1
            cards.append(Card(shown, words if last else [], model, folded=len(self._models) > 1))
        return cards

    def words(self) -> list[str]:
        """What the maps are."""
        seeds = " Answers of all training seeds are counted together." if self.report.seed_words else ""
        return [
            "Measured on samples as they are, without intervals: a class has fewer samples than its domain. Sources "
            "are counted together. In a map rows are the true classes and columns the answers, in percent of a row."
            f"{seeds}"
        ]

    @cached_property
    def _answers(self) -> list[ClassAnswers]:
        report = self.report
        return answers_by_class(report.evidence, report.classes, report.sources, report.targets)

    @cached_property
    def _models(self) -> dict[str, list[ClassAnswers]]:
        models = dict.fromkeys(one.model for one in self._answers)
        return {model: [one for one in self._answers if one.model == model] for model in models}

    def _by_class(self) -> Table:
        places = dict.fromkeys(one.domain for one in self._answers)
        both = "sources" in places
        lost = [f"lost on {target}" for target in self.report.targets] if both else []
        headings = [
            Heading("class"),
            *(Heading(name, tint=name in self.report.targets) for name in places),
            *map(Heading, lost),
        ]
        rows = []
        for model, some in self._models.items():
            known = {one.domain: one for one in some}
            for place, name in enumerate(self.report.classes):
                cells = [_share(known.get(domain), place) for domain in places]
                cells += [_lost(known, target, place) for target in self.report.targets if both]
                rows.append(Row([Cell(name), *cells], group=model))
        return Table("classes", headings, rows, Records(_COLUMNS, list(self._records())))

    def _records(self) -> Iterator[list[object]]:
        for one in self._answers:
            for place, name in enumerate(one.classes):
                for answer, taken in enumerate((*one.classes, "none of them")):
                    count, total = int(one.counts[place, answer]), int(one.samples[place])
                    share = count / total if total else None
                    yield [one.model, one.domain, name, taken, count, total, share, one.seen]

    def _mistakes(self) -> Table:
        rows, records = [], []
        for model, some in self._models.items():
            for one in some:
                wrong = one.counts[:, : len(one.classes)].copy()
                np.fill_diagonal(wrong, 0)
                order = np.argsort(-wrong, axis=None, kind="stable")[:_LISTED]
                for label, answer in zip(*np.unravel_index(order, wrong.shape), strict=True):
                    if wrong[label, answer]:
                        share = wrong[label, answer] / one.samples[label]
                        cells = [one.domain, one.classes[label], one.classes[answer], f"{share:.1%}"]
                        counts = [int(wrong[label, answer]), int(one.samples[label]), float(share)]
                        records.append([model, *cells[:3], *counts, one.seen])
                        rows.append(Row([*map(Cell, cells)], group=model))
        heads = [Heading("domain"), Heading("class"), Heading("taken for"), Heading("of its samples")]
        return Table("mistakes", heads, rows, Records(_COLUMNS, records))

    def _map(self, place: int, some: Sequence[ClassAnswers]) -> Chart:
        panels: list[Panel] = []
        for one in some:
            cells = [
                (name, taken, float(one.shares[place, answer]))
                for place, name in enumerate(one.classes)
                for answer, taken in enumerate(one.classes)
                if one.samples[place]
            ]
            (panel,) = heat_map("", cells, rows=one.classes, columns=one.classes, title="", x="answer").panels
            role = "sources" if one.domain == "sources" else f"{one.domain}, unseen"
            panels.append(Panel(panel.marks, panel.x, panel.y, role, panel.width, panel.height))
        title = some[0].model if len(self._models) > 1 else ""
        name = "confusion" if place == 0 else f"confusion-{place + 1}"
        return Chart(name, panels, title=title, columns=3 if len(self.report.classes) < 5 else 2)


_COLUMNS = ("model", "domain", "class", "answer", "count", "samples", "share", "seen_in_training")


def _of_model(table: Table, model: str) -> Table:
    """The rows of one model, which need no group."""
    rows = [Row(row.cells) for row in table.rows if row.group == model]
    return Table(table.name, table.headings, rows, table.numbers, table.caption)


def _share(one: ClassAnswers | None, place: int) -> Cell:
    if one is None or not one.samples[place]:
        return Cell("-")
    return Cell(f"{one.accuracy[place]:.1%}", (f"n = {one.samples[place]:,}",))


def _lost(known: dict[str, ClassAnswers], target: str, place: int) -> Cell:
    here, there = known.get("sources"), known.get(target)
    if here is None or there is None or not here.samples[place] or not there.samples[place]:
        return Cell("-")
    return Cell(points(float(here.accuracy[place] - there.accuracy[place])))
