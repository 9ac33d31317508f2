"""Accuracy on corrupted samples: by corruption, by group, and against the clean one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.display.chart import Chart, heat_map
from shiftproof.evidence import Evidence
from shiftproof.perturbations.corruptions import CORRUPTIONS, group_of
from shiftproof.report.estimates import Repeats, repeats_in
from shiftproof.report.section import SECTIONS, Card, Section
from shiftproof.report.tables import Cell, Heading, Records, Row, Table

__all__ = ["GROUPS", "Corrupted", "Corruptions", "corrupted_map", "corrupted_of"]

GROUPS = ("noise", "blur", "weather", "digital", "extra", "text")
_BENCHMARKS = {"cifar": "CIFAR-10-C", "imagenet": "ImageNet-C"}
_COLUMNS = ("model", "domain", "corruption", "group", "severity", "accuracy", "clean", "constants")


@SECTIONS.register("corrupted")
class Corruptions(Section):
    """Accuracy on corrupted samples: by group of corruptions, the worst one, and a map of all."""

    title = "Corrupted: samples spoiled without an attacker"
    order = 800

    def applies(self) -> bool:
        """Whether samples were corrupted."""
        return bool(self.report.corrupted)

    def tables(self) -> list[Table]:
        """A row for each model and domain."""
        corrupted = self.report.corrupted
        groups = list(dict.fromkeys(group for one in corrupted for group in one.groups))
        heads = [Heading("clean"), Heading("corrupted", ("mean",)), Heading("of clean", ("is left",))]
        headings = [Heading("model, domain"), *heads, *map(Heading, groups), Heading("worst")]
        rows = []
        for one in corrupted:
            worst, least = one.worst
            cells = [
                self.report.row_name(one.model, one.domain),
                Cell(_share(one.clean)),
                Cell(_share(one.mean), strong=True),
                Cell(_share(one.relative)),
                *(Cell(_share(one.groups.get(group))) for group in groups),
                Cell(_share(least), (worst,)),
            ]
            rows.append(Row(cells, tint=one.domain in self.report.targets))
        return [Table("corrupted", headings, rows, Records(_COLUMNS, list(_records(corrupted))))]

    def charts(self) -> list[Chart]:
        """Every corruption on each domain that the report is about."""
        domains = self.report.targets or self.report.sources[-1:]
        return [
            corrupted_map(self.report.corrupted, domain, "corrupted" if number == 1 else f"corrupted-{number}")
            for number, domain in enumerate(domains, 1)
        ]

    def words(self) -> list[str]:
        """Where the severities come from."""
        constants = self.report.corrupted[0].constants
        if not constants:
            strong = "Severities are rates of letters or words, which 'shiftproof ls corruptions' tells"
        else:
            strong = f"Severities are as strong as those of {_BENCHMARKS.get(constants, constants)}"
        return [f"Measured. {strong}; every sample has its own random draw."]

    def cards(self) -> list[Card]:
        """The table, then the map."""
        return [Card(self.tables(), self.words()), Card(self.charts())]

    def to_json(self) -> list[dict[str, Any]]:
        """The figures of the table."""
        return [one.figures() for one in self.report.corrupted]


@dataclass(frozen=True, eq=False)
class Corrupted:
    """One model on one domain: accuracy by corruption and severity, and what it was without.

    `members` are the groups of corruptions: noise, blur, weather, digital, extra.
    """

    model: str
    domain: str
    clean: float | None
    accuracy: dict[tuple[str, int], float]
    constants: str
    members: dict[str, str]

    @property
    def mean(self) -> float:
        """Over all corruptions and severities."""
        return float(np.mean(list(self.accuracy.values())))

    @property
    def relative(self) -> float | None:
        """What is left of the clean accuracy; None where there is none to lose."""
        return self.mean / self.clean if self.clean else None

    @property
    def groups(self) -> dict[str, float]:
        """The mean of every group that was measured: noise, blur, weather, digital, extra; of text, each by itself."""
        found: dict[str, list[float]] = {}
        for group in GROUPS:
            for (name, _), value in self.accuracy.items():
                if self.members[name] == group:
                    found.setdefault(name if group == "text" else group, []).append(value)
        return {group: float(np.mean(values)) for group, values in found.items()}

    @property
    def worst(self) -> tuple[str, float]:
        """The corruption that costs most, over its severities."""
        name = min(self.names, key=self.of)
        return name, self.of(name)

    @property
    def names(self) -> list[str]:
        """The corruptions that were measured."""
        return list(dict.fromkeys(name for name, _ in self.accuracy))

    def of(self, corruption: str) -> float:
        """The mean of one corruption over its severities."""
        return float(np.mean([value for (name, _), value in self.accuracy.items() if name == corruption]))

    def figures(self) -> dict[str, Any]:
        """The figures, for JSON."""
        means = {"clean": self.clean, "mean": self.mean, "relative": self.relative, "groups": self.groups}
        return {"model": self.model, "domain": self.domain, **means, "worst": self.worst[0]}


def _group(corrupted: Repeats) -> str:
    """The group of a corruption, as it is recorded; evidence of before does not say it."""
    name = corrupted.fact("corruption")
    return str(corrupted.fact("corruption_group") or (group_of(name) if name in CORRUPTIONS else "extra"))


def corrupted_of(evidence: Evidence) -> list[Corrupted]:
    """One for each model and domain that was corrupted."""
    found = []
    for part in evidence.where(probe="corrupt").by("model", "domain"):
        first = part[0]
        clean = repeats_in(evidence.where(probe="clean", model=first.model, domain=first.domain))
        corrupted = repeats_in(part)
        accuracy = {(one.fact("corruption"), one.fact("severity")): one.values().mean for one in corrupted}
        members = {str(one.fact("corruption")): _group(one) for one in corrupted}
        before = clean[0].values().mean if clean else None
        constants = str(first.fact("constants") or "")
        found.append(Corrupted(first.model, first.domain, before, accuracy, constants, members))
    return found


def corrupted_map(corrupted: Sequence[Corrupted], domain: str, file: str = "corrupted") -> Chart:
    """Corruptions by model, the mean over severities, on one domain."""
    here = [one for one in corrupted if one.domain == domain]
    names = list(dict.fromkeys(name for one in here for name in one.names))
    cells = [(one.model, name, one.of(name)) for one in here for name in one.names]
    severities = len({severity for one in here for _, severity in one.accuracy})
    title = f"accuracy on {domain}, mean over {severities} severities" if severities > 1 else f"accuracy on {domain}"
    return heat_map(file, cells, rows=[one.model for one in here], columns=names, title=title)


def _records(corrupted: Sequence[Corrupted]) -> Iterator[list[Any]]:
    for one in corrupted:
        for (name, severity), value in one.accuracy.items():
            clean = "" if one.clean is None else one.clean
            yield [one.model, one.domain, name, one.members[name], severity, value, clean, one.constants]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
