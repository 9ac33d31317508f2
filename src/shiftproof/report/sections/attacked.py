"""Accuracy under attacks of several sizes, domain by domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from shiftproof.display.axes import numbers_axis, share_axis
from shiftproof.display.chart import Chart, Key, Panel, styles_by_role
from shiftproof.display.marks import Dots, Line, Mark, Whiskers
from shiftproof.evidence import Evidence
from shiftproof.evidence.titles import relative_size
from shiftproof.perturbations.threat import size_text
from shiftproof.report.estimates import Repeats, estimate, repeats_in
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Heading, Records, Row, Table, percent_cell
from shiftproof.types import Estimate

__all__ = ["Attacked", "Attacks", "attacked_chart", "attacked_of", "attacked_records"]

_COLUMNS = ("model", "domain", "classifier", "threat", "norm", "eps", "metric", "value", "low", "high", "n", "method")


@SECTIONS.register("attacked")
class Attacks(Section):
    """Accuracy by the size of each attack, of one model; of several, matrices show it."""

    title = "Accuracy under attack"
    order = 500

    def applies(self) -> bool:
        """Whether one model was attacked."""
        return bool(self.report.attacked)

    def tables(self) -> list[Table]:
        """One for each attack."""
        return [self._table(name, answers) for name, answers in self._named()]

    def charts(self) -> list[Chart]:
        """One for each attack of several sizes."""
        several = [(name, answers) for name, answers in self._named() if len(answers[0].attacks) > 1]
        return [attacked_chart(name, answers, self.report.targets) for name, answers in several]

    def cards(self) -> list[Card]:
        """The charts; the figures stand in the table of all measures."""
        return [Card([chart]) for chart in self.charts()]

    def to_json(self) -> list[dict[str, Any]]:
        """All figures of every attack and domain."""
        return [one.figures() for answers in self.report.attacked for one in answers]

    def _named(self) -> Iterator[tuple[str, list[Attacked]]]:
        for number, answers in enumerate(self.report.attacked):
            yield "attacked" if number == 0 else f"attacked-{number + 1}", answers

    def _table(self, name: str, answers: Sequence[Attacked]) -> Table:
        norm = str(answers[0].fact("norm"))
        sizes = list(dict.fromkeys(size for one in answers for size in one.attacks))
        headings = [
            Heading("model, domain"),
            Heading("clean"),
            *(Heading(size_text(size, norm)) for size in sizes),
        ]
        rows = [
            Row(
                [
                    self.report.row_name(one.model, one.domain),
                    *(percent_cell(e) for e in (one.clean, *one.accuracy.values())),
                ],
                tint=one.domain in self.report.targets,
            )
            for one in answers
        ]
        return Table(name, headings, rows, attacked_records(answers), f"{answers[0].fact('threat')}")


@dataclass(frozen=True, eq=False)
class Attacked:
    """One model on one domain: measurements before an attack, and under it by size, from the smallest."""

    before: Repeats
    attacks: dict[float, Repeats]

    @property
    def model(self) -> str:
        """Model name."""
        return self.before.model

    @property
    def domain(self) -> str:
        """Domain name."""
        return self.before.domain

    @property
    def classifier(self) -> str:
        """The classifier that was attacked."""
        return next(iter(self.attacks.values())).first.classifier

    @property
    def seen_in_training(self) -> str:
        """no | unknown | yes."""
        return self.before.seen_in_training

    @property
    def grouped(self) -> bool:
        """Whether samples come in groups."""
        return self.before.grouped

    def fact(self, name: str) -> Any:
        """A fact that holds for all sizes: threat, norm, units, how."""
        return next(iter(self.attacks.values())).fact(name)

    @cached_property
    def clean(self) -> Estimate:
        """Accuracy before the attack."""
        return _accuracy(self.before)

    @cached_property
    def accuracy(self) -> dict[float, Estimate]:
        """Accuracy after it, by size."""
        return {size: _accuracy(one) for size, one in self.attacks.items()}

    def relative(self, size: float) -> str:
        """How large a size is, in words, where units alone do not tell; else nothing."""
        return relative_size(self.attacks[size].measurements, size)

    def median_distance(self, size: float) -> tuple[float | None, int]:
        """Of the samples that the attack has overturned, and how many they are; None if there are none."""
        parts = [np.zeros(0)]
        for after, before in self.attacks[size].pairs(self.before):
            # of what was imported, nobody knows how far it went
            if "distance" in after:
                places = after.ids.places_in(before.ids)
                right = (places >= 0) & before["correct"][places]
                parts.append(after["distance"][right & ~after["correct"]])
        distances = np.concatenate(parts)
        return (float(np.median(distances)), len(distances)) if len(distances) else (None, 0)

    def figures(self) -> dict[str, Any]:
        """All figures, for --json."""
        return {
            "domain": self.domain,
            "images": len(self.before.first),
            "sampled": self.before.fact("sampled"),
            "seen_in_training": self.seen_in_training,
            "classifier": self.classifier,
            **{name: self.fact(name) for name in ("how", "threat", "norm", "units")},
            "relative_size": {f"{size:g}": self.relative(size) for size in self.attacks},
            "clean_accuracy": self.clean.value,
            "clean_interval": [self.clean.low, self.clean.high],
            "accuracy": {f"{size:g}": e.value for size, e in self.accuracy.items()},
            "interval": {f"{size:g}": [e.low, e.high] for size, e in self.accuracy.items()},
            "median_distance": {f"{size:g}": self.median_distance(size)[0] for size in self.attacks},
        }


def attacked_of(evidence: Evidence) -> list[Attacked]:
    """One for each model, attack and domain; before the attack a vote is its own, measured within 0."""
    answers = []
    for part in evidence.where(probe="attack").by("model", "attack", "domain"):
        sizes = {float(one.fact("eps")): one for one in repeats_in(part)}
        clean = repeats_in(evidence.where(probe="clean", model=part[0].model, domain=part[0].domain))
        before = sizes.pop(0.0, None) or (clean[0] if clean else None)
        if before is not None and sizes:
            answers.append(Attacked(before, dict(sorted(sizes.items()))))
    return answers


def attacked_records(answers: Sequence[Attacked]) -> Records:
    """One line a number, in full."""
    rows: list[list[Any]] = []
    for one in answers:
        head = [one.model, one.domain, one.classifier, one.fact("threat"), one.fact("norm")]
        e, seen = one.clean, one.seen_in_training
        rows.append([*head, 0.0, "clean accuracy", e.value, e.low, e.high, e.n, e.method, seen])
        for size, e in one.accuracy.items():
            distance, count = one.median_distance(size)
            rows.append([*head, size, "accuracy", e.value, e.low, e.high, e.n, e.method, seen])
            shown = "" if distance is None else distance
            rows.append([*head, size, "median distance", shown, "", "", count, "", seen])
    return Records([*_COLUMNS, "seen_in_training"], rows)


def attacked_chart(name: str, answers: Sequence[Attacked], targets: Sequence[str] = ()) -> Chart:
    """Accuracy by eps with 95 % intervals, a colour and dots for each domain, sources dashed; at 0 that before it."""
    first, domains = answers[0], [one.domain for one in answers]
    unseen = [domain for domain in domains if domain in targets or not targets]
    styles = styles_by_role(unseen, [domain for domain in domains if domain not in unseen])
    marks = list[Mark]()
    for one in answers:
        found = [(0.0, one.clean), *one.accuracy.items()]
        points, style, of = [(eps, e.value) for eps, e in found], styles[one.domain], (one.domain,)
        hints = [f"{one.domain}, eps {eps:.4g}: {e.format()}" for eps, e in found]
        bars = Whiskers([(eps, e.low, e.high) for eps, e in found], replace(style, dash=(), width=1.5, opacity=0.6), of)
        marks += [Line(points, style, of), bars, Dots(points, style, of, hints)]
    title = f"eps ({first.fact('threat')}, {first.fact('units')}), {first.classifier} classifier"
    x = numbers_axis(title, [0.0, *(size for one in answers for size in one.attacks)])
    dashed = " Sources are dashed." if targets else ""
    words = "Dots are measured accuracies, bars 95 % intervals; at 0 before the attack. A better attack may leave less."
    keys = [Key(domain, style, "both") for domain, style in styles.items()]
    return Chart(name, [Panel(marks, x, share_axis("accuracy under attack"))], keys, words=words + dashed)


def _accuracy(one: Repeats) -> Estimate:
    return estimate(one.values(), exact=not one.grouped)
