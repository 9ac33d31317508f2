"""Accuracy on corrupted samples: by corruption, by group, and against the clean one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shiftproof.evidence import Evidence
from shiftproof.perturbations.corruptions import CORRUPTIONS
from shiftproof.report.cells import csv_text
from shiftproof.report.chart import heat_map

__all__ = ["GROUPS", "Corrupted", "corrupted_csv", "corrupted_map", "corrupted_of"]

GROUPS = ("noise", "blur", "weather", "digital", "extra")


@dataclass(frozen=True, eq=False)
class Corrupted:
    """One model on one domain: accuracy by corruption and severity, and what it was without."""

    model: str
    domain: str
    clean: float | None
    accuracy: dict[tuple[str, int], float]
    constants: str

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
        """The mean of every group that was measured: noise, blur, weather, digital, extra."""
        found = {}
        for group in GROUPS:
            values = [value for (name, _), value in self.accuracy.items() if group_of(name) == group]
            if values:
                found[group] = float(np.mean(values))
        return found

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


def group_of(corruption: str) -> str:
    """The group of a corruption; plug-ins that name none are extra."""
    return CORRUPTIONS[corruption].metadata.get("group", "extra") if corruption in CORRUPTIONS else "extra"


def corrupted_of(evidence: Evidence) -> list[Corrupted]:
    """One for each model and domain that was corrupted."""
    found = []
    for part in evidence.where(probe="corrupt").by("model", "domain"):
        first = part[0]
        before = evidence.where(probe="clean", model=first.model, domain=first.domain)
        accuracy = {(one.fact("corruption"), one.fact("severity")): float(one["correct"].mean()) for one in part}
        base = float(before[0]["correct"].mean()) if len(before) else None
        found.append(Corrupted(first.model, first.domain, base, accuracy, str(first.fact("constants"))))
    return found


def corrupted_csv(found: Sequence[Corrupted]) -> str:
    """One line for each model, domain, corruption and severity."""
    lines: list[list[Any]] = [["model", "domain", "corruption", "group", "severity", "accuracy", "clean", "constants"]]
    for one in found:
        for (name, severity), value in one.accuracy.items():
            clean = "" if one.clean is None else one.clean
            lines.append([one.model, one.domain, name, group_of(name), severity, value, clean, one.constants])
    return csv_text(lines)


def corrupted_map(found: Sequence[Corrupted], domain: str) -> dict[str, Any]:
    """A Vega-Lite heat map: corruptions by model, the mean over severities, on one domain."""
    here = [one for one in found if one.domain == domain]
    names = list(dict.fromkeys(name for one in here for name in one.names))
    cells = [(one.model, name, one.of(name)) for one in here for name in one.names]
    severities = len({severity for one in here for _, severity in one.accuracy})
    title = f"accuracy on {domain}, mean over {severities} severities" if severities > 1 else f"accuracy on {domain}"
    return heat_map(cells, rows=[one.model for one in here], columns=names, title=title)
