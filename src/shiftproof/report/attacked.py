"""Accuracy under attacks of several sizes, domain by domain: figures, a table and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shiftproof.evidence import Evidence, Measurement, metrics
from shiftproof.report.cells import csv_text
from shiftproof.report.chart import PALETTE
from shiftproof.types import Estimate

__all__ = ["Attacked", "attacked_chart", "attacked_csv", "attacked_of"]


@dataclass(frozen=True, eq=False)
class Attacked:
    """One model on one domain under one attack: measurements by size, from the smallest, and what it was before."""

    before: Measurement
    attacks: dict[float, Measurement]

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
        """Which classifier was attacked."""
        return next(iter(self.attacks.values())).classifier

    @property
    def seen_in_training(self) -> str:
        """no | unknown | yes."""
        return self.before.seen_in_training

    @property
    def grouped(self) -> bool:
        """Whether samples come in groups."""
        return self.before.grouped

    def fact(self, name: str) -> Any:
        """What holds for all sizes: threat, norm, units, how."""
        return next(iter(self.attacks.values())).fact(name)

    @cached_property
    def clean(self) -> Estimate:
        """Accuracy before the attack."""
        return _accuracy(self.before)

    @cached_property
    def accuracy(self) -> dict[float, Estimate]:
        """Accuracy after it, by size."""
        return {size: _accuracy(one) for size, one in self.attacks.items()}

    def median_distance(self, size: float) -> tuple[float | None, int]:
        """Of the samples that the attack has overturned, and how many they are; None if there are none."""
        one = self.attacks[size]
        right = dict(zip(self.before["id"].tolist(), self.before["correct"].tolist(), strict=True))
        overturned = np.array([right[sample] for sample in one["id"].tolist()], bool) & ~one["correct"]
        if not overturned.any():
            return None, 0
        return float(np.median(one["distance"][overturned])), int(overturned.sum())

    def figures(self) -> dict[str, Any]:
        """All figures, for --json."""
        return {
            "domain": self.domain,
            "images": len(self.before),
            "sampled": self.before.fact("sampled"),
            "seen_in_training": self.seen_in_training,
            "classifier": self.classifier,
            **{name: self.fact(name) for name in ("how", "threat", "norm", "units")},
            "clean_accuracy": self.clean.value,
            "clean_interval": [self.clean.low, self.clean.high],
            "accuracy": {f"{size:g}": e.value for size, e in self.accuracy.items()},
            "interval": {f"{size:g}": [e.low, e.high] for size, e in self.accuracy.items()},
            "median_distance": {f"{size:g}": self.median_distance(size)[0] for size in self.attacks},
        }


def attacked_of(evidence: Evidence) -> list[Attacked]:
    """One for each model, attack and domain; before the attack a vote is its own, measured within 0."""
    found = []
    for part in evidence.where(probe="attack").by("model", "attack", "domain"):
        sizes = {float(one.fact("eps")): one for one in part}
        clean = evidence.where(probe="clean", model=part[0].model, domain=part[0].domain)
        before = sizes.pop(0.0, None) or (clean[0] if len(clean) else None)
        if before is not None and sizes:
            found.append(Attacked(before, dict(sorted(sizes.items()))))
    return found


def attacked_csv(answers: Sequence[Attacked]) -> str:
    """One line a number, in full."""
    header = ["model", "domain", "classifier", "threat", "norm", "eps", "metric", "value", "low", "high", "n", "method"]
    lines: list[list[Any]] = [[*header, "seen_in_training"]]
    for one in answers:
        head = [one.model, one.domain, one.classifier, one.fact("threat"), one.fact("norm")]
        e, seen = one.clean, one.seen_in_training
        lines.append([*head, 0.0, "clean accuracy", e.value, e.low, e.high, e.n, e.method, seen])
        for size, e in one.accuracy.items():
            distance, count = one.median_distance(size)
            lines.append([*head, size, "accuracy", e.value, e.low, e.high, e.n, e.method, seen])
            shown = "" if distance is None else distance
            lines.append([*head, size, "median distance", shown, "", "", count, "", seen])
    return csv_text(lines)


def attacked_chart(answers: Sequence[Attacked]) -> dict[str, Any]:
    """A Vega-Lite specification: accuracy by eps with 95 % intervals, one colour a domain; at 0 that before."""
    import altair as alt

    first = answers[0]
    points = [
        {"domain": one.domain, "eps": eps, "accuracy": e.value, "low": e.low, "high": e.high}
        for one in answers
        for eps, e in [(0.0, one.clean), *one.accuracy.items()]
    ]
    names = [one.domain for one in answers]
    title = f"eps ({first.fact('threat')}, {first.fact('units')}), {first.classifier} classifier"
    base = alt.Chart(alt.InlineData(values=points)).encode(
        x=alt.X("eps:Q", title=title),
        color=alt.Color(
            "domain:N",
            sort=names,
            scale=alt.Scale(range=PALETTE),
            legend=alt.Legend(title=None, orient="top", labelLimit=0, columns=4),
        ),
    )
    y = alt.Y(
        "accuracy:Q",
        title="accuracy under attack",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    bars = base.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
    chart = (base.mark_line(strokeWidth=2, point=True).encode(y=y) + bars).properties(width=620, height=300)
    chart = chart.configure_view(stroke=None).configure_axis(grid=False, labelFontSize=12, titleFontSize=12)
    specification: dict[str, Any] = chart.configure_legend(labelFontSize=13).to_dict(validate=False)
    return specification


def _accuracy(one: Measurement) -> Estimate:
    return metrics.accuracy(one["correct"], one["group"] if one.grouped else None)
