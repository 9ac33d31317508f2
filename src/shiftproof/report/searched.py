"""What searches reach, and how much the loss can change: tables per model and domain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    for part in evidence.where(probe="search").by("model", "domain", "search"):
        first, before = part[0], part.get(eps=0.0)["prediction"]
        reached, moved = {}, None
        for one in sorted((one for one in part if one.fact("eps")), key=lambda one: float(one.fact("eps"))):
            changed = one["prediction"] != before
            sample = Sample(changed.astype(np.float64), one.units_of)
            reached[float(one.fact("eps"))] = bootstrap_mean(sample, limits=(0, 1))
            if changed.any():
                moved = float(one["latent_distance"][changed].mean())
        # the nearest adversarial representation has no size
        nearest = part.get(eps=None)["latent_distance"]
        finite = nearest[np.isfinite(nearest)]
        near = float(finite.mean()) if len(finite) else float("inf")
        found.append(Searched(first.model, first.domain, str(first.fact("norm")), reached, moved, near))
    return found


def loss_changes_of(evidence: Evidence) -> list[LossChange]:
    """One for each model, domain and threat."""
    found = []
    for part in evidence.where(probe="input-robustness").by("model", "setting"):
        for one in part:
            bound = one.sample("loss_bound")
            proven = None if np.isnan(bound.values).any() else bootstrap_mean(bound)
            estimate = bootstrap_mean(one.sample("loss_change"))
            found.append(LossChange(one.model, one.domain, one.title, estimate, proven))
    return found
