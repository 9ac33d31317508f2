"""Texts that a run shows: a few of every domain, and what a word attack made of some of those that it overturned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from torch import nn

from shiftproof.attacks import Base
from shiftproof.attacks.attack import attack_samples
from shiftproof.domains import Domain
from shiftproof.evidence import Evidence
from shiftproof.perturbations.edits import Edits
from shiftproof.perturbations.text import decode
from shiftproof.probes import Probe
from shiftproof.probes.attack import Attack
from shiftproof.report.examples import EditedText, Examples, first_texts, write_examples

__all__ = ["write_text_examples"]

SHOWN = 4
"""Attacked texts of a domain and a model, at most."""


def write_text_examples(
    path: Path,
    domain: Domain,
    models: Mapping[str, tuple[nn.Module, int]],
    probes: Sequence[Probe],
    evidence: Evidence,
) -> None:
    """Write the texts of a domain, unless they are there; `models` come with the seed of their attacks.

    Evidence says which texts an attack has overturned, not what it made of them: these few are attacked again, which
    gives the same edits, because draws depend on the seed and the sample's id alone.
    """
    if path.is_file():
        return
    edited: list[EditedText] = []
    for name, (model, seed) in models.items():
        for probe in probes:
            if isinstance(probe, Attack) and probe.smoothed is None and isinstance(probe.attack.threat, Edits):
                edited += _edited(name, model, seed, probe, domain, evidence.where(model=name, domain=domain.name))
    write_examples(path, Examples(first_texts(domain), edited))


def _edited(
    name: str, model: nn.Module, seed: int, probe: Attack, domain: Domain, evidence: Evidence
) -> Iterator[EditedText]:
    rows = [one for one in evidence.where(probe="attack", attack=repr(probe)) if one.fact("eps") == max(probe.budgets)]
    for row in rows[:1]:
        overturned = set(row["id"][~row["correct"] & (row["distance"] > 0)][:SHOWN].tolist())
        few = domain.subset([index for index, sample in enumerate(domain.ids) if sample in overturned])
        if not len(few):
            continue
        inputs, labels = few.tensors()
        found = attack_samples(Base(model), probe.attack, inputs, labels, few.ids, probe.budgets, seed)[-1]
        before, after = decode(inputs), decode(found.inputs)
        for i in np.flatnonzero(found.predictions != few.labels).tolist():
            place, label = int(found.predictions[i]), domain.classes[few.labels[i]]
            answer = domain.classes[place] if place < len(domain.classes) else f"class {place}"
            yield EditedText(name, str(Edits(float(found.distance[i]))), label, answer, before[i], after[i])
