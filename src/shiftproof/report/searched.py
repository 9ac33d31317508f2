"""What searches reach, and how much the loss can change: tables per model and domain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shiftproof.evidence import Evidence
from shiftproof.statistics import Sample, bootstrap_mean
from shiftproof.types import Estimate

__all__ = ["LossChange", "Searched", "loss_changes_of", "searched_of"]


@dataclass(frozen=True)
class Searched:
    """Of one model on one domain: which part of predictions a search changes within each size.

    `moved` is how far representations moved where that happened within the largest, and `nearest` how far the nearest
    adversarial one is, both over the length of the one before.
    """

    model: str
    domain: str
    norm: str
    reached: dict[float, Estimate]
    moved: float | None
    nearest: float

    @property
    def sizes(self) -> str:
        """The columns of its table."""
        return f"{self.norm} {', '.join(f'{size:g}' for size in self.reached)}"


@dataclass(frozen=True)
class LossChange:
    """Of one model on one domain: by how much the loss changes within a threat, as found and as proven."""

    model: str
    domain: str
    title: str
    found: Estimate
    proven: Estimate | None


def searched_of(evidence: Evidence) -> list[Searched]:
    """One for each model, domain and search."""
    found = []
    for part in _searches(evidence.where(probe="search")):
        sizes, predictions = part["eps"].astype(np.float64), part["prediction"]
        before, units = predictions[sizes == 0.0], part.sample("prediction").units[sizes == 0.0]
        reached, moved = {}, None
        for size in sorted(set(sizes[sizes > 0].tolist())):
            changed = predictions[sizes == size] != before
            reached[size] = bootstrap_mean(Sample(changed.astype(np.float64), units), limits=(0, 1))
            if changed.any():
                moved = float(part["latent_distance"][sizes == size][changed].mean())
        nearest = part["latent_distance"][np.isnan(sizes)].astype(np.float64)
        finite = nearest[np.isfinite(nearest)]
        near = float(finite.mean()) if len(finite) else float("inf")
        model, domain, norm = (str(part[name][0]) for name in ("model", "domain", "norm"))
        found.append(Searched(model, domain, norm, reached, moved, near))
    return found


def _searches(rows: Evidence) -> Iterator[Evidence]:
    """The rows of each model, domain and probe: its settings differ in the size alone."""
    probes = np.array([setting.rpartition(")")[0] for setting in rows["setting"]], object)
    keys = list(zip(rows["model"], rows["domain"], probes, strict=True))
    for key in dict.fromkeys(keys):
        yield Evidence(rows.table.filter(pa.array([one == key for one in keys])))


def loss_changes_of(evidence: Evidence) -> list[LossChange]:
    """One for each model, domain and threat."""
    rows, found = evidence.where(probe="input-robustness"), []
    for model in rows.distinct("model"):
        for setting in rows.where(model=model).distinct("setting"):
            for domain in rows.where(model=model, setting=setting).distinct("domain"):
                part = rows.where(model=model, setting=setting, domain=domain)
                bound = part.sample("loss_bound")
                proven = None if np.isnan(bound.values).any() else bootstrap_mean(bound)
                estimate = bootstrap_mean(part.sample("loss_change"))
                found.append(LossChange(str(model), str(domain), str(part["title"][0]), estimate, proven))
    return found
