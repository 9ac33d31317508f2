"""Samples attacked again as they were when they were measured, each compared with what evidence records of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from shiftproof.attacks.attack import as_victim, attack_samples
from shiftproof.domains import Domain
from shiftproof.evidence import Evidence, Measurement
from shiftproof.execution import duration
from shiftproof.perturbations.embedding import EmbeddingThreat
from shiftproof.perturbations.threat import size_text
from shiftproof.probes.attack import Attack
from shiftproof.report.gallery.words import distance_text

__all__ = ["Remade", "TimeLeft", "attack_again"]

SECONDS = 15.0
"""How long attacks may take again for the gallery of a run, by what they took when they were measured."""
_TOLERANCE = 1e-3
"""Relative, of a distance: attacked among other samples, one is rounded otherwise."""


@dataclass
class TimeLeft:
    """What is left of the time for attacks; one that takes longer is left out, and named in `skipped`."""

    seconds: float = SECONDS

    def spend(self, seconds: float) -> bool:
        """Whether there is time for it; if so, it is taken off."""
        if seconds > self.seconds:
            return False
        self.seconds -= seconds
        return True


@dataclass(frozen=True, eq=False)
class Remade:
    """An attacked sample: its input, or None with the reason why there is none to show."""

    sample: str
    setting: str
    note: str
    input: Tensor | None = None


def attack_again(
    probe: Attack, model: nn.Module, samples: Domain, evidence: Evidence, time: TimeLeft
) -> Iterator[Remade]:
    """The samples under one attack, at its largest size; `evidence` is of the model on their domain.

    Draws depend on the seed and a sample's id alone, so that an attack finds the same again, but for rounding: what
    evidence records otherwise is not shown.
    """
    rows = list(evidence.where(probe="attack", attack=repr(probe)))
    if not rows:
        return
    one = max(rows, key=lambda row: float(row.fact("eps")))
    known, distances = one.places_of(samples.ids.tolist()), one["distance"]
    places = np.array(list(known.values()), np.int64)
    tried = [sample for sample, place in known.items() if distances[place] > 0]
    size = size_text(float(one.fact("eps")), str(one.fact("norm")))
    if isinstance(probe.attack.threat, EmbeddingThreat):
        for sample in tried:
            yield Remade(sample, one.setting, f"{size}: the attack moves embeddings, so that no text changes")
        return
    # what a sample took is divided among the sizes of a probe
    seconds = float(sum(row["seconds"][places].sum() for row in rows)) if "seconds" in one else 0.0
    if not time.spend(seconds):
        for sample in tried:
            note = f"attacking again would take {duration(seconds)} for the samples of this domain"
            yield Remade(sample, one.setting, f"not shown: {note}")
        return
    yield from _again(probe, model, samples, one, {sample: known[sample] for sample in tried})


def _again(
    probe: Attack, model: nn.Module, samples: Domain, one: Measurement, tried: dict[str, int]
) -> Iterator[Remade]:
    few = samples.subset([place for place, sample in enumerate(samples.ids.tolist()) if sample in tried])
    if not len(few):
        return
    inputs, labels = few.tensors()
    seed = int(one.fact("seed"))
    victim = as_victim(model, probe.smoothed, probe.samples, probe.votes, seed)
    device = next((parameter.device for parameter in model.parameters()), inputs.device)
    found = attack_samples(victim, probe.attack, inputs.to(device), labels.to(device), few.ids, probe.budgets, seed)[-1]
    norm = str(one.fact("norm"))
    for row, sample in enumerate(few.ids.tolist()):
        recorded, distance = int(one["prediction"][tried[sample]]), float(one["distance"][tried[sample]])
        same = abs(float(found.distance[row]) - distance) <= _TOLERANCE * distance
        if int(found.predictions[row]) == recorded and same:
            yield Remade(sample, one.setting, distance_text(distance, norm), found.inputs[row])
        else:
            yield Remade(sample, one.setting, "not shown: attacked again, it came out otherwise than is recorded")
