"""Attack the domains of a data set with a model that is there already, into a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from shiftproof.attacks import Attack, AttackResult, attack
from shiftproof.attacks.attack import as_victim, check_victim
from shiftproof.attacks.validity import validity_findings
from shiftproof.errors import DataError, UsageError
from shiftproof.evidence import metrics
from shiftproof.execution import Mode, read_json, write_atomically, write_json
from shiftproof.models.identity import identity_of
from shiftproof.perturbations import Threat
from shiftproof.perturbations.noise import Noise, label
from shiftproof.report.cells import csv_text
from shiftproof.report.chart import PALETTE, chart_png, chart_svg
from shiftproof.studies.certifying import Place
from shiftproof.studies.subject import check_size
from shiftproof.types import Estimate, Finding

_EXAMINED = 24

__all__ = ["Assault", "Attacked", "attacked_chart", "attacked_csv", "median_distance"]


@dataclass(frozen=True, eq=False)
class Attacked:
    """A domain under attack: one result a budget, from the smallest to the largest."""

    place: Place
    results: list[AttackResult]

    @property
    def clean(self) -> Estimate:
        """Accuracy before the attack."""
        return metrics.accuracy(self.results[0].clean == self.results[0].labels, self.place.domain.groups)

    def accuracy(self, result: AttackResult) -> Estimate:
        """Accuracy after it."""
        return metrics.accuracy(~result.success, self.place.domain.groups)

    def summary(self) -> dict[str, Any]:
        """All figures, for --json."""
        at = {f"{result.threat.eps:g}": self.accuracy(result) for result in self.results}
        return {
            "domain": self.place.domain.name,
            "images": len(self.results[0]),
            "what": self.place.what,
            **self.place.facts,
            "classifier": self.results[0].classifier,
            "how": self.results[0].how,
            "threat": self.results[0].threat.kind,
            "norm": self.results[0].threat.norm,
            "units": self.results[0].threat.units,
            "clean_accuracy": self.clean.value,
            "clean_interval": [self.clean.low, self.clean.high],
            "accuracy": {eps: e.value for eps, e in at.items()},
            "interval": {eps: [e.low, e.high] for eps, e in at.items()},
            "median_distance": {f"{one.threat.eps:g}": median_distance(one) for one in self.results},
        }


def median_distance(result: AttackResult) -> float | None:
    """Of the samples that the attack has overturned; None if there are none."""
    return float(np.median(result.distance[result.overturned])) if result.overturned.any() else None


@dataclass(frozen=True, eq=False)
class Assault:
    """What is to be attacked: a model on samples, with an attack, within budgets."""

    model: nn.Module
    where: Sequence[Place]
    attack: Attack
    budgets: Sequence[float]
    smoothed: Noise | None = None
    seed: int = 0

    @property
    def asked(self) -> dict[str, Any]:
        """All that can change a number, in a form that fits into JSON."""
        same = identity_of(repr(self.attack), self.model, [place.domain for place in self.where], seed=self.seed)
        return {
            "attack": same.pop("asked"),
            "model": same.pop("weights"),
            "eps": sorted(set(self.budgets)),
            "smoothed": None if self.smoothed is None else repr(self.smoothed),
            **same,
        }

    def check(self, folder: Path) -> None:
        """Refuse what can't be answered, or would take the place of another answer, before anything is written."""
        largest = self.attack.threat.at(max(self.budgets))
        for place in self.where:
            check_size(largest, place.domain.shape)
            check_victim(as_victim(self.model, self.smoothed, 1, 1, self.seed), place.domain)
        path = folder / "attack.json"
        if path.is_file():
            before, now = read_json(path, DataError).get("asked", {}), json.loads(json.dumps(self.asked))
            changed = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
            if changed:
                raise UsageError(f"{folder} holds an attack with another {', '.join(changed)}; choose another --out")

    def findings(self) -> Iterator[Finding]:
        """What weakens the attack."""
        said = set()
        for eps in sorted(set(self.budgets)):
            within: Any = replace(self.attack, threat=self.attack.threat.at(eps))  # type: ignore[type-var]
            for finding in within.findings() if hasattr(within, "findings") else ():
                if finding.message not in said:
                    yield finding
                said.add(finding.message)

    def doubts(self) -> Iterator[Finding]:
        """Why gradients of the model can't be trusted, by a few samples; nothing if they can, or if none are used."""
        threat, domain = self.attack.threat, self.where[0].domain
        if not isinstance(threat, Threat) or self.smoothed is not None:
            return
        few = domain.subset(np.unique(np.linspace(0, len(domain) - 1, _EXAMINED, dtype=np.int64)))
        found = validity_findings(self.model, *few.tensors(), few.ids, threat, seed=self.seed)
        yield from (one for one in found if one.level != "pass")

    def run(self, workers: int = 1, progress: Mode = "auto") -> list[Attacked]:
        """One answer a place; nothing is written."""
        return [
            Attacked(
                place,
                attack(
                    self.model,
                    place.domain,
                    self.attack,
                    eps=sorted(set(self.budgets)),
                    seed=self.seed,
                    smoothed=self.smoothed,
                    keep_inputs=False,
                    workers=workers,
                    progress=progress,
                    label=f"attacking {place.domain.name}",
                ),
            )
            for place in self.where
        ]

    def write(self, answers: Sequence[Attacked], folder: Path) -> list[str]:
        """The table, a picture if there are several budgets, and the record, below `folder`; returns their names."""
        files = {"tables/attacked.csv": attacked_csv(answers).encode()}
        if len(set(self.budgets)) > 1:
            chart = attacked_chart(answers)
            files |= {"figures/attacked.svg": chart_svg(chart).encode(), "figures/attacked.png": chart_png(chart)}
        for name, content in files.items():
            write_atomically(folder / name, content)
        record = {"asked": self.asked, "noise": None if self.smoothed is None else label(self.smoothed)}
        findings = [asdict(finding) for finding in self.findings()]
        results = [one.summary() for one in answers]
        write_json(folder / "attack.json", {**record, "results": results, "findings": findings})
        return [*files, "attack.json"]


def attacked_csv(answers: Sequence[Attacked]) -> str:
    """One line a number, in full."""
    header = ["domain", "classifier", "threat", "norm", "eps", "metric", "value", "low", "high", "n", "method"]
    lines: list[list[Any]] = [[*header, "seen_in_training"]]
    for one in answers:
        first = one.results[0]
        head = [one.place.domain.name, first.classifier, first.threat.kind, first.threat.norm]
        e, seen = one.clean, one.place.seen_in_training
        lines.append([*head, 0.0, "clean accuracy", e.value, e.low, e.high, e.n, e.method, seen])
        for result in one.results:
            e, distance = one.accuracy(result), median_distance(result)
            lines.append([*head, result.threat.eps, "accuracy", e.value, e.low, e.high, e.n, e.method, seen])
            counted, shown = int(result.overturned.sum()), "" if distance is None else distance
            lines.append([*head, result.threat.eps, "median distance", shown, "", "", counted, "", seen])
    return csv_text(lines)


def attacked_chart(answers: Sequence[Attacked]) -> dict[str, Any]:
    """A Vega-Lite specification: accuracy by eps with 95 % intervals, one colour a domain; at 0 that before."""
    import altair as alt

    first = answers[0].results[0]
    points = [
        {"domain": one.place.domain.name, "eps": eps, "accuracy": e.value, "low": e.low, "high": e.high}
        for one in answers
        for eps, e in [(0.0, one.clean), *((r.threat.eps, one.accuracy(r)) for r in one.results if r.threat.eps > 0)]
    ]
    names = [one.place.domain.name for one in answers]
    title = f"eps ({first.threat.kind}, {first.threat.units}), {first.classifier} classifier"
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
    specification: dict[str, Any] = chart.configure_legend(labelFontSize=13).to_dict()
    return specification
